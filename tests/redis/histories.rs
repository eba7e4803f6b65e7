//! Recorded runs of many tasks: what they did and saw is checked as a whole. The same run on stores
//! that break the rules shows that the check would see it.
