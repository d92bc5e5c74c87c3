package turn

import (
	"fmt"
	"strings"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// maxReason bounds the agent's words in Result.Reason, in bytes.
const maxReason = 2000

// outcome returns the Result of an agent that has ended, or whose answer counts now. An error
// means that the child never became the agent because of a fault of ours.
func (s *supervisor) outcome() (Result, error) {
	o := &s.output
	res := Result{
		ExitCode: -1, Exit: ExitError,
		Stderr:  o.stderr.String(),
		Session: o.session,
		Bill:    o.bill,
		Context: o.context, Window: o.window, Calls: o.calls + 1,
	}
	if !s.process.isRunning() {
		res.ExitCode = s.process.state.ExitCode()
	}
	defer s.process.handshake.close()
	fault, err := s.startFault()
	if err != nil {
		return Result{}, err
	}

	res.Notes = append(res.Notes, s.output.remarks()...)
	res.Refused = s.refusedActions()
	s.decideStatus(&res, fault)
	s.setAnswer(&res)
	s.listOutput(&res)
	s.requireAnswer(&res)
	s.classifyFailure(&res)
	if s.process.abandoned {
		res.Notes = append(res.Notes, "a process of the agent left its process group and may still run")
	}
	return res, nil
}

// finalAnswer returns the settled answer of an agent that has ended since, with the final bill,
// stderr and exit.
func (s *supervisor) finalAnswer() Result {
	res := *s.answer
	res.Bill, res.Stderr = s.output.bill, s.output.stderr.String()
	switch {
	case s.ending != nil:
		res.Exit = s.ending.exit
	case s.process.state.ExitCode() == 0:
		res.Exit = ExitClean
	default:
		res.Exit = ExitError
	}
	if !s.process.isRunning() {
		res.ExitCode = s.process.state.ExitCode()
	}
	return res
}

// refusedActions returns the actions that the agent was denied. Some agents report them only on
// stderr.
func (s *supervisor) refusedActions() []string {
	if pattern := s.output.agent.refusals; pattern != nil {
		for _, m := range pattern.Get().FindAllStringSubmatch(s.output.stderr.String(), -1) {
			s.output.refuse(m[1], m[2])
		}
	}
	return s.output.refused
}

// describeExit describes how the agent's process ended.
func (s *supervisor) describeExit() string {
	switch {
	case s.ending != nil && s.ending.status == TimedOut:
		return "timeout: " + s.ending.reason
	case s.ending != nil:
		return s.ending.reason
	case s.process.isRunning():
		return "abandoned"
	case s.process.state.ExitCode() == 0:
		return "clean exit"
	}
	return s.process.state.String()
}

// startFault returns why the command could not be started, or "". A child that gave up by itself
// before it was ready is an error. A child that was killed before it was ready counts as a killed
// agent.
func (s *supervisor) startFault() (string, error) {
	p := s.process
	if p.isRunning() {
		return "", nil
	}
	if !p.handshake.begun && s.ending == nil && s.output.answer.n == 0 && p.state.Exited() && p.state.ExitCode() != 0 {
		return "", fmt.Errorf("start agent: %v: %s", p.state, lastLine(s.output.stderr.String()))
	}
	return p.handshake.reason(), nil
}

// decideStatus sets Status, Exit and Reason from the end of the process and the last Done. fault
// is the reason why the command could not be started, or "".
func (s *supervisor) decideStatus(res *Result, fault string) {
	if s.ending != nil {
		res.Exit, res.Status, res.Reason = s.ending.exit, s.ending.status, s.ending.reason
		if s.ending.exit != ExitIdle {
			return
		}
		res.Reason = ""
	}
	if s.ending == nil && res.ExitCode == 0 {
		res.Exit = ExitClean
	} else if s.ending == nil && s.process.isRunning() {
		res.Exit = ExitIdle
	}
	done := s.output.done
	switch {
	case fault != "":
		res.Status, res.Reason = Failed, "cannot start the command: "+fault
		res.Outage = &Outage{Kind: state.Obstacle, Reason: res.Reason}
	case done != nil && done.Failed:
		res.Status, res.Reason = Failed, plain.Cut(clean(done.Text), maxReason)
		if res.Reason == "" {
			res.Reason = "the agent failed without a reason"
		}
	case done != nil && done.Cut != "":
		res.Status, res.Reason = Partial, plain.Cut(clean(done.Cut), maxReason)
	case done != nil:
		res.Status = Success
		if res.Exit == ExitError {
			res.Notes = append(res.Notes, fmt.Sprintf("the agent ended with %v after its answer", s.process.state))
		}
	case res.ExitCode != 0:
		res.Status, res.Reason = Failed, s.exitReason()
	case s.output.agent.parse != nil:
		res.Status, res.Reason = Partial, "the agent's stream ended without a result"
	default:
		res.Status = Success
	}
}

// exitReason returns the exit status with the last line of the agent's errors.
func (s *supervisor) exitReason() string {
	reason := s.process.state.String()
	for _, text := range []string{s.output.faults.String(), s.output.stderr.String()} {
		if line := lastLine(text); line != "" {
			return reason + ": " + line
		}
	}
	return reason
}

// setAnswer sets the text. After a success it is the text of Done, or else the text after the
// last tool. If both are empty, or without a success, it is the agent's whole text. But if a
// successful agent may be silent, its text before the last tool does not count.
func (s *supervisor) setAnswer(res *Result) {
	o := &s.output
	if res.Status == Success && o.done != nil {
		whole := o.done.Text
		if whole == "" && o.segment.Len() <= s.config.MaxText {
			whole = o.segment.String()
		}
		whole = withoutThoughts(whole)
		if whole != "" || s.attempt.MayBeSilent && o.segment.Len() == 0 {
			o.answer.reset()
			o.answer.write(whole)
		}
	}
	truncated, why := o.answer.truncated(), o.answer.err
	text, file := o.answer.close()
	if file != "" {
		text = string(plain.TrimPartial([]byte(text)))
	}
	res.Text, res.TextFile = clean(withoutThoughts(text)), file
	switch {
	case !truncated || res.Status != Success:
	case why != nil:
		res.Status, res.Reason = Partial, fmt.Sprintf("the answer is truncated: %v", why)
	default:
		res.Status, res.Reason = Partial, fmt.Sprintf("the answer is truncated at %d of %d bytes", s.config.MaxOutput, o.answer.n)
	}
}

// listOutput lists the files that the agent left. A missing output folder becomes a note.
func (s *supervisor) listOutput(res *Result) {
	names, notes, err := ListOutput(s.attempt.Dir)
	res.Output = names
	res.Notes = append(res.Notes, notes...)
	if err != nil {
		res.Notes = append(res.Notes, err.Error())
	}
}

// requireAnswer downgrades a result without text: to Partial if the agent left files, otherwise
// to Failed. An agent that may be silent still succeeds without text and files.
func (s *supervisor) requireAnswer(res *Result) {
	if res.Text != "" || (res.Status != Success && res.Status != Partial) {
		return
	}
	if len(res.Output) > 0 {
		res.Status, res.Reason = Partial, "the agent wrote files but no answer"
		return
	}
	if res.Status == Success && s.attempt.MayBeSilent {
		return
	}
	if res.Status == Success {
		res.Reason = "the agent ended without an answer"
	}
	if line := lastLine(res.Stderr); line != "" {
		res.Reason += ": " + line
	}
	res.Status = Failed
}

// classifyFailure decides whether the message is at fault. It is not if the agent's login is
// refused, if the agent has reached a temporary limit, or if the session to resume cannot
// continue. An agent may keep retrying against each of these until our own deadline.
func (s *supervisor) classifyFailure(res *Result) {
	res.Worked = s.output.calls > 0
	if res.Outage != nil || res.Status == Success || res.Status == Canceled || res.Status == TimedOut && res.Text != "" {
		return
	}
	resumed := s.attempt.Session != "" && !res.Worked && !s.output.answered()
	reported := s.output.faults.String() + "\n" + res.Stderr
	if line := s.matchRunnerLogin(res, reported); line != "" {
		res.Credential = s.config.credential(line)
		return
	}
	if res.Outage = s.reachedLimit(res); res.Outage != nil {
		return
	}
	if resumed {
		res.SessionFailed, res.Session = true, ""
		return
	}
	if line := s.matchAnyLogin(res); line != "" {
		res.Credential = s.config.credential(line)
	}
}

// firstMatch returns the first matching line, truncated, or "".
func firstMatch(text string, pattern *lazy.Regexp) string {
	if pattern == nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if pattern.Get().MatchString(line) {
			return plain.Cut(strings.TrimSpace(line), maxLastLine)
		}
	}
	return ""
}
