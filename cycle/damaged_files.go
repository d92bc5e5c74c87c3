package cycle

import (
	"errors"
	"path"
	"slices"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/state/store"
)

// CheckFiles reads every file that the state names, and every item in quarantine. It returns
// the number of files, and an error for each damaged one, which names the file. It takes no
// lock, and leaves out files that a poll moves meanwhile.
func (a *Agent) CheckFiles() (n int, damaged []error, err error) { return a.fileChecker().check() }

// fileChecker reads the files that the state names.
type fileChecker struct {
	store      *store.Store
	quarantine func() ([]quarantine.Item, error)
}

// check is CheckFiles.
func (c fileChecker) check() (n int, damaged []error, err error) {
	files, err := c.named()
	if err != nil {
		return 0, nil, err
	}
	broken := map[namedFile]error{}
	for _, f := range files {
		if _, err := c.store.ReadSummed(f.name, f.sum); errors.Is(err, store.ErrDamaged) {
			broken[f] = err
		}
	}
	if len(broken) == 0 {
		return len(files), nil, nil
	}
	still, err := c.named()
	for _, f := range still {
		if e, ok := broken[f]; ok {
			damaged = append(damaged, e)
		}
	}
	return len(files), damaged, err
}

// named returns the files that the state names now, and those of the items in
// quarantine.
func (c fileChecker) named() ([]namedFile, error) {
	s, err := c.store.Read()
	if err != nil {
		return nil, err
	}
	items, err := c.quarantine()
	if err != nil {
		return nil, err
	}
	var files []namedFile
	for _, m := range s.Inbox {
		files = append(files, namedFile{m.Payload, m.Sum})
		files = append(files, incomingFiles{c.store}.filesOf(m)...)
	}
	for _, e := range slices.Concat(s.Outbox, s.Undelivered, s.HookCalls) {
		files = append(files, namedFile{e.File, e.Sum})
		for _, f := range e.Files {
			files = append(files, namedFile{f.File, f.Sum})
		}
	}
	for _, w := range s.Turn.Waiting {
		if w.Report != "" {
			files = append(files, namedFile{w.Report, w.Sum})
			files = append(files, incomingFiles{c.store}.filesIn(w.Report, w.Sum)...)
		}
	}
	for _, x := range s.Expected {
		files = append(files, namedFile{x.Cause.Payload, x.Cause.Sum})
		files = append(files, incomingFiles{c.store}.filesOf(x.Cause)...)
		if x.Report != "" {
			files = append(files, namedFile{x.Report, x.Sum})
			files = append(files, incomingFiles{c.store}.filesIn(x.Report, x.Sum)...)
		}
	}
	if s.Turn.Submitted != "" {
		files = append(files, namedFile{path.Join(attemptDir(s.Turn.TurnID, s.Turn.Epoch), s.Turn.Submitted), s.Turn.SubmittedSum})
	}
	for _, i := range items {
		files = append(files, namedFile{i.Payload, i.Sum})
		for n, f := range (heldFiles{c.store}).named(i) {
			if f.Missing == "" {
				files = append(files, namedFile{heldName(i.Key, n), f.SHA256})
			}
		}
	}
	return files, nil
}
