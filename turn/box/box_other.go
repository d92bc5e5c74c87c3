//go:build !linux

package box

import (
	"context"
	"errors"
)

var errLinuxOnly = errors.New("sandboxes are supported on Linux only")

// Find returns an error: this system lacks namespaces.
func Find(context.Context, string) (Way, error) { return Way{}, errLinuxOnly }

// Bubblewrap returns an error: bubblewrap exists on Linux only.
func Bubblewrap(context.Context, string) (Way, error) { return Way{}, errLinuxOnly }

// Advice tells the operator to turn the sandbox off, the only remedy on this system.
func Advice(error) string { return "set sandbox = \"\" in [turn]" }

// Run returns an error and runs nothing.
func (b Box) Run(context.Context, Way, Program) error { return errLinuxOnly }

// Argv returns an error.
func (b Box) Argv(Way, []string) ([]string, error) { return nil, errLinuxOnly }

// Main returns an error: this system has no stages.
func Main([]string) error { return errLinuxOnly }

// TryEscapes returns an error: this system has no sandbox to escape.
func TryEscapes([]string) error { return errLinuxOnly }
