package react

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/osfile"
)

const stepsName = "steps.jsonl"

// Step is one line of steps.jsonl. The steps are all that a later attempt needs to
// go on.
type Step struct {
	At   time.Time `json:"at"`
	Kind StepKind  `json:"kind"`

	Text   string  `json:"text,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	ID     string  `json:"id,omitempty"` // of a call
	Failed bool    `json:"failed,omitempty"`
	After  After   `json:"after_execution,omitempty"` // of a result that ends the run
	Shown  []Shown `json:"shown,omitempty"`           // what the model sees with it
}

// StepKind is the kind of a Step.
type StepKind string

// The steps.
const (
	StepWake    StepKind = "wake"    // Text, Shown: the message that woke the loop
	StepNote    StepKind = "note"    // Text: a remark of ours to the model
	StepAnswer  StepKind = "answer"  // Answer
	StepCall    StepKind = "call"    // ID: it is about to run
	StepResult  StepKind = "result"  // ID, Text, Failed, After, Shown
	StepWarning StepKind = "warning" // Text: a note that the window fills
	StepBlind   StepKind = "blind"   // Text: nothing of what was Shown is shown any more
	StepShorter StepKind = "shorter" // Text: replaces all before it, which did not fit the model's window
	StepSummary StepKind = "summary" // Text: replaces all before it; Failed: it could not be made
)

// maxSteps is how many bytes of the steps of earlier attempts are read.
const maxSteps = 256 << 20

// Steps is the steps.jsonl of one attempt, open for more.
type Steps struct {
	// Past are the steps of the attempts before. This attempt goes on from them.
	Past []Step

	file *os.File
}

// OpenSteps creates the steps.jsonl of the attempt in dir, turns/<turn_id>/<epoch>.
// It begins with the steps of the newest earlier attempt of the turn that has any; a
// torn line ends them. The file appears whole or not at all, so an attempt that died
// early is skipped. When OpenSteps returns, its name and the folders above it survive a
// power failure, up to the agent's.
func OpenSteps(dir string) (*Steps, error) {
	past, err := pastSteps(dir)
	if err != nil {
		return nil, fmt.Errorf("open steps: %w", err)
	}
	name := filepath.Join(dir, stepsName)
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open steps: %w", err)
	}
	if err := adopt(f, name, past); err != nil {
		f.Close()
		return nil, fmt.Errorf("open steps: %w", err)
	}
	return &Steps{Past: past, file: f}, nil
}

// adopt writes the past into f, which becomes name.
func adopt(f *os.File, name string, past []Step) error {
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, s := range past {
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	// The runner has made the folders of the attempt, the turn and all turns, and
	// nobody has made their names durable: of most agents nothing in them must last.
	dir := filepath.Dir(name)
	for range 4 {
		if err := osfile.SyncDir(dir); err != nil {
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// add appends one step. When it returns, the step survives a power failure.
func (s *Steps) add(step Step) error {
	step.At = step.At.UTC()
	line, err := json.Marshal(step)
	if err != nil {
		return fmt.Errorf("keep step: %w", err)
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("keep step: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("keep step: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *Steps) Close() error { return s.file.Close() }

// pastSteps reads the steps of the newest attempt before the one in dir.
func pastSteps(dir string) ([]Step, error) {
	own, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is not an attempt: its name is not an epoch", dir)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	var newest uint64
	for _, e := range entries {
		epoch, err := strconv.ParseUint(e.Name(), 10, 64)
		if err != nil || epoch >= own || epoch <= newest {
			continue
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), e.Name(), stepsName)); err == nil {
			newest = epoch
		}
	}
	if newest == 0 {
		return nil, nil
	}
	return readSteps(filepath.Join(filepath.Dir(dir), strconv.FormatUint(newest, 10), stepsName))
}

// beginning returns as much of a file of steps as is read.
func beginning(f io.Reader) io.Reader { return io.LimitReader(f, maxSteps) }

// readSteps reads what is whole of a file of steps. Its writer may have died,
// or the power gone, in the middle of a line.
func readSteps(name string) ([]Step, error) {
	f, err := osfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var steps []Step
	dec := json.NewDecoder(bufio.NewReader(beginning(f)))
	for {
		var s Step
		if dec.Decode(&s) != nil {
			return steps, nil
		}
		steps = append(steps, s)
	}
}
