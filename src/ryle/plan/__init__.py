"""How many GPUs, servers, cards and switch ports an array needs, what limits each engine, and where each is to run.

`work` says what there is to do, `hardware` what a GPU and a server were measured to do, `loads` how much of each
resource an engine takes, `size` how many of each are needed, `placement` where the engines of an observation run;
`placement_file` reads that again and `checks` looks at it as a whole. `corner_turn` is what the network between F and
X does to packets, `here` what all of it takes of this machine.
"""
