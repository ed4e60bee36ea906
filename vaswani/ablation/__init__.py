"""Table 3 around any base configuration: the rows, their runs, and the table beside the paper's."""
