//! Nothing: the program of the page is part of the test.
