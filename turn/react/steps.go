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

// Step is one line of steps.jsonl. A later attempt needs only the steps to continue.
type Step struct {
	At   time.Time `json:"at"`
	Kind StepKind  `json:"kind"`

	Text   string      `json:"text,omitempty"`
	Answer *Answer     `json:"answer,omitempty"`
	ID     string      `json:"id,omitempty"` // of a call
	Failed bool        `json:"failed,omitempty"`
	After  After       `json:"after_execution,omitempty"` // of a result that ends the run
	Shown  []ShownFile `json:"shown,omitempty"`           // files that the model sees with it
}

// StepKind is the kind of a Step.
type StepKind string

// The kinds of steps.
const (
	StepWake    StepKind = "wake"    // Text, Shown: the message that woke the loop
	StepNote    StepKind = "note"    // Text: our note to the model
	StepAnswer  StepKind = "answer"  // Answer
	StepCall    StepKind = "call"    // ID: the call is about to run
	StepResult  StepKind = "result"  // ID, Text, Failed, After, Shown
	StepWarning StepKind = "warning" // Text: a warning that the window fills up
	StepBlind   StepKind = "blind"   // Text: from now on, no earlier file is shown
	StepShorter StepKind = "shorter" // Text: replaces all earlier messages, which did not fit the model's window
	StepSummary StepKind = "summary" // Text: replaces all earlier messages; Failed: the summary failed
)

// maxSteps bounds the bytes that are read of earlier attempts' steps.
const maxSteps = 256 << 20

// Steps is the steps.jsonl of one attempt, open for appending.
type Steps struct {
	// Past are the steps of earlier attempts. This attempt continues from them.
	Past []Step

	file *os.File
}

// OpenSteps creates the steps.jsonl of the attempt in dir, turns/<turn_id>/<epoch>. The file
// begins with the steps of the turn's newest earlier attempt that has such a file, up to a torn
// line. The file appears whole or not at all, so that later attempts skip an attempt that died
// early. When OpenSteps returns, the file's name and the folders above it, up to the agent's,
// survive a power failure.
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
	if err := writePast(f, name, past); err != nil {
		f.Close()
		return nil, fmt.Errorf("open steps: %w", err)
	}
	return &Steps{Past: past, file: f}, nil
}

// writePast writes past into f and renames f to name.
func writePast(f *os.File, name string, past []Step) error {
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
	// The runner has made the folders of the attempt, the turn and all turns, but not made
	// their names durable, because most agents keep no durable files in them.
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
		return fmt.Errorf("write step: %w", err)
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write step: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("write step: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *Steps) Close() error { return s.file.Close() }

// pastSteps reads the steps of the newest attempt before the one in dir.
func pastSteps(dir string) ([]Step, error) {
	own, err := strconv.ParseUint(filepath.Base(dir), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is not the folder of an attempt: its name must be an epoch", dir)
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

// limitSteps limits a file of steps to the bytes that are read.
func limitSteps(f io.Reader) io.Reader { return io.LimitReader(f, maxSteps) }

// readSteps reads the whole lines of a file of steps. The last line may be torn, because its
// writer died or the power failed.
func readSteps(name string) ([]Step, error) {
	f, err := osfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var steps []Step
	dec := json.NewDecoder(bufio.NewReader(limitSteps(f)))
	for {
		var s Step
		if dec.Decode(&s) != nil {
			return steps, nil
		}
		steps = append(steps, s)
	}
}
