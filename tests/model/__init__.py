"""An explicit-state model of the guard protocol: every interleaving of its statements in small worlds.

Read in this order: `parts` (what can be taken out), `state` (what there is), `acquire`, `fence`, `ending`, `judging`
(the protocol, step by step), `airflow` (what happens to it), `invariants` (what must hold), `scenarios`, `search`.

Two bounds in time are modelled by what they stand for. The drain bound: a presence is given up only once its process
is dead (a scenario may drop that, to show what is left without it). The startup grace: a claim without a DagRun is
missing only once nobody is at work to create it.

Left out: waiting tickets, failures of the database, answers of Airflow that say nothing (they only block), mapped
tasks, and time-outs of a fence that waits.
"""
