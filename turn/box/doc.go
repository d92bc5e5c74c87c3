// Package box runs a program in a sandbox: in namespaces of its own, with only /usr, the
// granted folders and scratch space in memory (docs/design.md, "The box";
// docs/decisions/0022-sandbox.md).
// A process in a sandbox cannot outlive it, inherits none of our descriptors, and cannot reach
// a process outside.
//
// There are two Ways to make a sandbox: bubblewrap and the built-in way. Both build the same
// layout (layout_linux.go), and the steps after it are the same. Our own binary is the first
// process in the sandbox (init_linux.go). It starts itself again, and the second process puts
// up the inner walls (program_linux.go): Landlock, seccomp, limits, and the loss of all
// capabilities. Then that process becomes the program.
//
// Sandboxes exist on Linux only. Elsewhere Find returns an error.
package box
