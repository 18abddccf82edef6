"""What a running correlator is to other programs: a web page, metrics, and controls by HTTP and katcp."""
