package commands

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/cycle/view"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/osfile"
	"agentstateloop/mesh"
	"agentstateloop/state/store"
)

// The exit codes (docs/protocol.md, "Exit codes and errors").
const (
	exitDone    = 0  // done, or nothing to do
	exitError   = 1  //
	exitUsage   = 2  // usage or configuration
	exitSource  = 3  // the cycle ran but a source failed
	exitRefused = 4  // of nudge --wait: refused by HALT or the mesh; of report and answer: the report is not expected
	exitTimeout = 5  // of nudge --wait
	exitFailed  = 6  // of nudge --wait: a turn or a delivery failed
	exitBusy    = 75 // EX_TEMPFAIL of sysexits: another poll is running, or another host acts
)

// sourceError reports that the cycle ran but failed to read a source.
type sourceError struct{ failed []string }

func (e *sourceError) Error() string { return strings.Join(e.failed, "\n  ") }

// silentError is an error without a printed text: the text has been printed elsewhere, or is
// suppressed.
type silentError struct{ error }

func (silentError) Error() string   { return "" }
func (e silentError) Unwrap() error { return e.error }

// exitCode is the only place that maps errors to exit codes.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if _, ok := errors.AsType[*terminal.UsageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitUsage
	}
	if errors.Is(err, cycle.ErrNoMesh) || is[*cycle.MovedError](err) || is[*seat.TroubleError](err) {
		return exitUsage
	}
	if is[*seat.StandbyError](err) {
		return exitBusy
	}
	if e, ok := errors.AsType[*relayedError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*waitError](err); ok {
		return e.code
	}
	if is[*sourceError](err) || is[*cycle.SeatError](err) {
		return exitSource
	}
	if isUnexpectedReport(err) {
		return exitRefused
	}
	if errors.Is(err, cycle.ErrBusy) || errors.Is(err, listen.ErrRunning) || errors.Is(err, seat.ErrBusy) {
		return exitBusy
	}
	return exitError
}

// errorCode is a kind of error in the JSON of a failed command (docs/json.md).
type errorCode string

// All error codes. A script may switch over them, so the list is closed: a new code, or a new
// meaning, is a new version of the contract.
const (
	codeUsage       errorCode = "usage"         // the command line is wrong
	codeConfig      errorCode = "config"        // the configuration is missing or wrong
	codeSource      errorCode = "source_failed" // the work was done, but mail, mesh, a hook or a login failed
	codeRefused     errorCode = "refused"       // HALT, the mesh or the agent refuses it
	codeTimedOut    errorCode = "timed_out"     // a wait timed out
	codeFailed      errorCode = "failed"        // a turn, a delivery or a check failed
	codeBusy        errorCode = "busy"          // another process or host is working on it
	codeNotFound    errorCode = "not_found"     // the named item does not exist
	codeEmpty       errorCode = "empty"         // there are no pending messages
	codeNotAllowed  errorCode = "not_allowed"   // this turn may not call the command
	codeStale       errorCode = "stale"         // the turn is over, or has been answered
	codeMesh        errorCode = "mesh_failed"   // the mesh cannot be reached, or refused the call
	codeInterrupted errorCode = "interrupted"   // a signal ended the command
	codeInternal    errorCode = "internal"      // a bug
	codeOther       errorCode = "error"         // anything else; see the message
)

// errorCodes lists all error codes.
var errorCodes = []errorCode{
	codeUsage, codeConfig, codeSource, codeRefused, codeTimedOut, codeFailed, codeBusy, codeNotFound, codeEmpty, codeNotAllowed, codeStale,
	codeMesh, codeInterrupted, codeInternal, codeOther,
}

// codedError is an error with an error code.
type codedError struct {
	error
	code errorCode
}

func (e *codedError) Unwrap() error { return e.error }

// coded returns err with an error code.
func coded(code errorCode, err error) error { return &codedError{err, code} }

// codesOfErrors maps error values to their codes.
var codesOfErrors = []struct {
	err  error
	code errorCode
}{
	{cycle.ErrInterrupted, codeInterrupted},
	{context.Canceled, codeInterrupted},
	{view.ErrNoMessage, codeNotFound},
	{cycle.ErrNoEffect, codeNotFound},
	{cycle.ErrNoHook, codeNotFound},
	{cycle.ErrNoPrompt, codeNotFound},
	{quarantine.ErrNotQuarantined, codeNotFound},
	{cycle.ErrNothing, codeEmpty},
	{cycle.ErrBeingSent, codeBusy},
	{cycle.ErrStale, codeStale},
	{cycle.ErrSubmitted, codeStale},
	{cycle.ErrReset, codeStale},
	{view.ErrHalted, codeRefused},
	{cycle.ErrEventsFull, codeRefused},
	{cycle.ErrNoSelfTurns, codeRefused},
	{view.ErrFailed, codeFailed},
	{context.DeadlineExceeded, codeTimedOut},
}

// errorCodeOf is the only place that maps errors to error codes.
func errorCodeOf(err error) errorCode {
	if e, ok := errors.AsType[*relayedError](err); ok && slices.Contains(errorCodes, errorCode(e.kind)) {
		return errorCode(e.kind)
	}
	if e, ok := errors.AsType[*codedError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*config.Error](err); ok || errors.Is(err, cycle.ErrNoMesh) || is[*cycle.MovedError](err) || is[*seat.TroubleError](err) {
		return codeConfig
	}
	switch exitCode(err) {
	case exitUsage:
		return codeUsage
	case exitSource:
		return codeSource
	case exitRefused:
		return codeRefused
	case exitTimeout:
		return codeTimedOut
	case exitFailed:
		return codeFailed
	case exitBusy:
		return codeBusy
	}
	for _, known := range codesOfErrors {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	for _, isMesh := range []func(error) bool{is[*mesh.Error], is[*fleet.Error], is[*fleet.Refusal]} {
		if isMesh(err) {
			return codeMesh
		}
	}
	return codeOther
}

// is reports whether err is or wraps an error of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// explain returns the hint, the error code and the exit code of an error.
func explain(err error) (hint, code string, exit int) {
	return hintOf(err), string(errorCodeOf(err)), exitCode(err)
}

// hintOf returns the hint for an error, or "". A hint tells the user what to do.
func hintOf(err error) string { return cmp.Or(specificHint(err), generalHint(err)) }

// specificHint returns the hint that an error carries, or the hint for this particular error.
func specificHint(err error) string {
	if hint := terminal.HintOf(err); hint != "" {
		return hint
	}
	switch {
	case errors.Is(err, cycle.ErrBusy):
		return "another poll of this agent is running and handles new messages; try again in a moment"
	case errors.Is(err, syscall.ENOLCK):
		return "the file system of the state directory does not support locks, like NFS without its lock service: set state_dir in [agent] to a folder on a local disk"
	case errors.Is(err, store.ErrOtherAgent):
		return "give each agent a state_dir of its own in [agent]"
	case errors.Is(err, context.Canceled) && err.Error() != "":
		return "interrupted; nothing recorded is lost, and the next poll continues"
	case errors.Is(err, cycle.ErrNoMesh):
		return meshHint
	case errors.Is(err, cycle.ErrNotAsked):
		return "`" + name + " status` shows the open questions, and `" + name + " inbox list` the numbers of the messages"
	case errors.Is(err, cycle.ErrLateReport), errors.Is(err, cycle.ErrQuestionEnd):
		return "to send it to the agent as a message, use `" + name + " tell`"
	case errors.Is(err, cycle.ErrUnknownReport):
		return "check that this is the right agent; -a HANDLE selects another; `" + name + " status --json` lists the expected reports"
	}
	return ""
}

// isUnexpectedReport reports whether a report was refused because it is not expected.
func isUnexpectedReport(err error) bool {
	return errors.Is(err, cycle.ErrUnknownReport) || errors.Is(err, cycle.ErrLateReport) || errors.Is(err, cycle.ErrNotTheirs) ||
		errors.Is(err, cycle.ErrNotAsked) || errors.Is(err, cycle.ErrQuestionEnd)
}

// generalHint returns the hint for a kind of error.
func generalHint(err error) string {
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		return natsHint(e)
	}
	if e, ok := errors.AsType[*mesh.Error](err); ok {
		return meshErrorHint(e)
	}
	if e, ok := errors.AsType[*sourceError](err); ok && len(e.failed) > 0 {
		return "everything else was done, and each poll retries; `" + name + " doctor` shows the cause"
	}
	if errors.Is(err, osfile.ErrKind) {
		return "move it away; the next poll creates the right one, and `" + name + " status` lists all such files"
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, fs.ErrNotExist) {
		return "`" + name + " doctor` checks the files and folders of the agent"
	}
	return ""
}

// meshHint is the hint for an agent without a mesh.
const meshHint = "start one with `" + name + " mesh serve`, and set [mesh] url = \"http://127.0.0.1:8801\""

// meshErrorHint returns the hint for an error of the mesh.
func meshErrorHint(e *mesh.Error) string {
	switch e.Code {
	case 0:
		return "check that the mesh is running and that url in [mesh] is correct; `" + name + " mesh serve` starts one"
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the token of [mesh] must match the one of your handle in the --tokens file of mesh serve"
	case http.StatusNotFound:
		return "the mesh only knows the handles in its --tokens file; `" + name + " status --all` shows the agents seen recently"
	case http.StatusTooManyRequests:
		return "try again in " + terminal.Short(cmp.Or(e.RetryAfter, time.Minute)) + "; messages in the outbox wait by themselves"
	case http.StatusRequestEntityTooLarge:
		return "shorten the text, or send it as a file, with --file"
	case http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return "`" + name + " status --all` shows which agents have not polled for a long time: they do not read their messages"
	}
	return ""
}

// natsHint returns the hint for an error of the mesh on NATS.
func natsHint(e *fleet.Error) string {
	switch {
	case e.Denied && e.Server == "":
		return "correct key_file in [mesh], or create a key with `" + name + " fleet key`"
	case e.Denied:
		return "`" + name + " fleet key` shows the public key of this agent: pass it to `" + name + " fleet plan`, as HANDLE=KEY, and reload the servers"
	case errors.Is(e, fleet.ErrAuthority):
		return "if the certificate authority is your own, set ca_file in [mesh] to its certificate"
	case e.Code == 0:
		return "check that nats-server is running and that url in [mesh] is correct; `" + name + " doctor` tests each server"
	case e.Full():
		return "`" + name + " status --all` shows which agents have not polled for a long time: they do not read their messages"
	}
	return ""
}

// errorDocument is the JSON output of a failed command, unless the command has printed its own
// document.
type errorDocument struct {
	Error errorOutput `json:"error"`
}

// errorOutput describes the error of a command.
type errorOutput struct {
	Code    errorCode   `json:"code"`
	Message string      `json:"message"`
	Hint    *string     `json:"hint"`
	At      *errorPlace `json:"at"` // place in a wrong configuration; else null
}

// errorPlace is a place in the configuration. Line and Key are null if the file as a whole is
// wrong.
type errorPlace struct {
	File string  `json:"file"`
	Line *int    `json:"line"`
	Key  *string `json:"key"`
}

// failed prints the document of a failed command. It is a single line, so it can also end a
// stream of lines.
func (p *program) failed(err error) {
	if p.json && !p.out.Answered {
		_ = p.out.JSONLine(errorDocument{*outputOf(err)}) // a failed write has already been reported
	}
}

// outputOf converts an error to its JSON output, and nil to nil.
func outputOf(err error) *errorOutput {
	if err == nil {
		return nil
	}
	e := &errorOutput{Code: errorCodeOf(err), Message: messageOf(err), Hint: orNull(hintOf(err))}
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		e.At = &errorPlace{File: wrong.Path, Line: orNull(wrong.Line), Key: orNull(wrong.Key)}
	}
	return e
}

// messageOf returns the text of an error, even of a silentError.
func messageOf(err error) string {
	if e, ok := errors.AsType[silentError](err); ok {
		return e.error.Error()
	}
	return cmp.Or(err.Error(), "unknown error")
}
