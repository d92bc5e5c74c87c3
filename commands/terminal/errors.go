package terminal

import (
	"errors"
	"fmt"
)

// UsageError reports a wrong command line. Advice may be empty.
type UsageError struct{ Text, Advice string }

func (e *UsageError) Error() string { return e.Text }

// Hint returns what to do next, or "".
func (e *UsageError) Hint() string { return e.Advice }

// Usagef returns a UsageError with a hint, which may be empty.
func Usagef(hint, format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), hint}
}

// hinted is an error with a hint.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }
func (e *hinted) Hint() string  { return e.hint }

// WithHint returns err with a hint, which states what to do next.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// HintOf returns the hint of err or of the first wrapped error that has one, or
// "".
func HintOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return e.Hint()
	}
	return ""
}
