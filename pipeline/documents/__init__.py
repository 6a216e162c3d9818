"""Find, decode and read the files of the input folder and turn them into documents."""
