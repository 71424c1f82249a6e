"""The integrity gate: is this host fit to be measured on?"""
