//go:build !linux

package box

import (
	"context"
	"errors"
)

var errLinuxOnly = errors.New("programs can be confined on Linux only")

// Find returns an error: this system has no namespaces.
func Find(context.Context, string) (Way, error) { return Way{}, errLinuxOnly }

// Bubblewrap returns an error: it exists on Linux only.
func Bubblewrap(context.Context, string) (Way, error) { return Way{}, errLinuxOnly }

// Advice returns what the operator can do: nothing on this system.
func Advice(error) string { return "set sandbox = \"\" in [turn]" }

// Run returns an error; nothing is run.
func (b Box) Run(context.Context, Way, Program) error { return errLinuxOnly }

// Argv returns an error.
func (b Box) Argv(Way, []string) ([]string, error) { return nil, errLinuxOnly }

// Main returns an error: there are no stages here.
func Main([]string) error { return errLinuxOnly }

// TryEscapes returns an error: there is nothing to leave.
func TryEscapes([]string) error { return errLinuxOnly }
