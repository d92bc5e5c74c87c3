package turn

import (
	"fmt"
	"regexp"
	"strings"
)

// outcome says what came of it, once follow has returned. Its error means that
// the child never became the agent, by a fault of ours.
func (s *supervisor) outcome() (Result, error) {
	res := Result{
		ExitCode: -1, Exit: ExitError,
		Stderr:  s.stderr.String(),
		Session: s.session,
		Bill:    s.bill,
		Context: s.context, Window: s.window, Calls: s.calls + 1,
	}
	if !s.exited.IsZero() {
		res.ExitCode = s.p.state.ExitCode()
	}
	child, err := s.child()
	if err != nil {
		return Result{}, err
	}

	s.decideStatus(&res, child)
	s.takeAnswer(&res)
	s.listOutput(&res)
	s.requireAnswer(&res)
	s.classifyFailure(&res)
	if s.left {
		res.Notes = append(res.Notes, "a process that the agent started left its group and was abandoned")
	}
	return res, nil
}

// child reads what the child wrote into alive. If it wrote nothing and gave up
// by itself, the agent was never begun, by a fault of ours; one that was killed
// before it could write was killed like any other agent.
func (s *supervisor) child() (Process, error) {
	_, p, err := Probe(s.a.Dir)
	if err != nil {
		// The agent may have removed its own folder; what it said still counts.
		return Process{}, nil
	}
	if p.PID == 0 && s.ending == nil && s.answer.n == 0 && s.p.state.Exited() && s.p.state.ExitCode() != 0 {
		return p, fmt.Errorf("start agent: %v: %s", s.p.state, lastLine(s.stderr.String()))
	}
	return p, nil
}

// decideStatus finds Status, Exit and Reason from how the process ended and what its
// stream said last.
func (s *supervisor) decideStatus(res *Result, child Process) {
	if s.ending != nil {
		res.Exit, res.Status, res.Reason = s.ending.exit, s.ending.status, s.ending.reason
		if s.ending.exit != ExitIdle {
			return
		}
		res.Reason = ""
	}
	if s.ending == nil && res.ExitCode == 0 {
		res.Exit = ExitClean
	}
	switch {
	case child.Error != "":
		res.Status, res.Reason = Failed, "the command cannot be started: "+child.Error
	case s.done != nil && s.done.Failed:
		res.Status, res.Reason = Failed, head(clean(s.done.Text), 2000)
		if res.Reason == "" {
			res.Reason = "the agent says that it failed, and not why"
		}
	case s.done != nil && s.done.Cut != "":
		res.Status, res.Reason = Partial, head(clean(s.done.Cut), 2000)
	case s.done != nil:
		res.Status = Success
		if res.Exit == ExitError {
			res.Notes = append(res.Notes, fmt.Sprintf("the agent ended with %v after its answer", s.p.state))
		}
	case res.ExitCode != 0:
		res.Status, res.Reason = Failed, s.exitReason()
	case s.agent.parse != nil:
		res.Status, res.Reason = Partial, "the agent's stream ended without a result"
	default:
		res.Status = Success
	}
}

// exitReason is the exit status with the agent's last words.
func (s *supervisor) exitReason() string {
	reason := s.p.state.String()
	for _, said := range []string{s.faults.String(), s.stderr.String()} {
		if line := lastLine(said); line != "" {
			return reason + ": " + line
		}
	}
	return reason
}

// takeAnswer fills in the text: what Done holds, else what was said after the
// last tool; and all that was said if the turn did not end well.
func (s *supervisor) takeAnswer(res *Result) {
	if res.Status == Success && s.done != nil {
		whole := s.done.Text
		if whole == "" && s.segment.Len() <= s.c.MaxText {
			whole = s.segment.String()
		}
		if whole != "" {
			s.answer.reset()
			s.answer.write(whole)
		}
	}
	cut, why := s.answer.cut(), s.answer.err
	text, file := s.answer.close()
	if file != "" {
		text = string(wholeRunes([]byte(text)))
	}
	res.Text, res.TextFile = clean(text), file
	switch {
	case !cut || res.Status != Success:
	case why != nil:
		res.Status, res.Reason = Partial, fmt.Sprintf("the answer is cut: %v", why)
	default:
		res.Status, res.Reason = Partial, fmt.Sprintf("the answer is cut at %d bytes of %d", s.c.MaxOutput, s.answer.n)
	}
}

// listOutput lists the box; one that is gone is worth a note.
func (s *supervisor) listOutput(res *Result) {
	names, notes, err := ListOutput(s.a.Dir)
	res.Output = names
	res.Notes = append(res.Notes, notes...)
	if err != nil {
		res.Notes = append(res.Notes, err.Error())
	}
}

// requireAnswer keeps an agent that ended without a word from passing for one
// that answered.
func (s *supervisor) requireAnswer(res *Result) {
	if res.Text != "" || (res.Status != Success && res.Status != Partial) {
		return
	}
	if len(res.Output) > 0 {
		res.Status, res.Reason = Partial, "the agent left files but no answer"
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

// classifyFailure looks in what the agent called an error for a refused login and for a
// session that is gone. An agent that is refused may try again and again until
// our own deadline.
func (s *supervisor) classifyFailure(res *Result) {
	if res.Status == Success || res.Status == Canceled || res.Status == TimedOut && res.Text != "" {
		return
	}
	said := s.faults.String() + "\n" + res.Stderr
	if s.a.Session != "" && firstMatch(said, s.agent.sessionGone) != "" {
		res.SessionStale, res.Session = true, ""
		return
	}
	if line := firstMatch(said, s.agent.loginRefused); line != "" {
		res.Credential = s.c.credential(line)
	} else if s.agent.loginExit > 0 && res.ExitCode == s.agent.loginExit {
		res.Credential = s.c.credential(res.Reason)
	}
}

// firstMatch is the first line that matches, cut; "" if there is none.
func firstMatch(said string, want *regexp.Regexp) string {
	if want == nil {
		return ""
	}
	for line := range strings.Lines(said) {
		if want.MatchString(line) {
			return head(strings.TrimSpace(line), 300)
		}
	}
	return ""
}
