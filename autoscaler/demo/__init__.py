"""A minute or two that shows the program at work on an emulated cluster, beside an HPA and no autoscaling at all."""
