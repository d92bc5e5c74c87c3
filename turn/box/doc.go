// Package box runs a program in a box: in namespaces of its own, where only /usr,
// the folders that it was granted and scratch space in memory exist
// (docs/design.md, "The box"; docs/decisions/0022). Nothing that runs in a box outlives
// it, inherits a descriptor of ours, or reaches a process outside.
//
// There are two Ways to make a box, bubblewrap and our own, and one layout
// (layout_linux.go) that both build. What follows is the same in both: our own
// binary is the first process in the box (init_linux.go). It starts itself once more,
// which puts up the inner walls (program_linux.go): Landlock, seccomp, limits and no
// capabilities. Then that process becomes the program.
//
// Boxes exist on Linux only. Elsewhere Find returns an error.
package box
