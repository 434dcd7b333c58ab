"""One model per class: tables of scores over toggled labels, and walks over all relabellings."""
