package cycle

import (
	"errors"
	"path"
	"slices"

	"agentstateloop/cycle/files"
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
	list, err := c.named()
	if err != nil {
		return 0, nil, err
	}
	broken := map[files.Summed]error{}
	for _, f := range list {
		if _, err := c.store.ReadSummed(f.Name, f.Sum); errors.Is(err, store.ErrDamaged) {
			broken[f] = err
		}
	}
	if len(broken) == 0 {
		return len(list), nil, nil
	}
	still, err := c.named()
	for _, f := range still {
		if e, ok := broken[f]; ok {
			damaged = append(damaged, e)
		}
	}
	return len(list), damaged, err
}

// named returns the files that the state names now, and those of the items in
// quarantine.
func (c fileChecker) named() ([]files.Summed, error) {
	s, err := c.store.Read()
	if err != nil {
		return nil, err
	}
	items, err := c.quarantine()
	if err != nil {
		return nil, err
	}
	var list []files.Summed
	for _, m := range s.Inbox {
		list = append(list, files.Summed{Name: m.Payload, Sum: m.Sum})
		list = append(list, files.Incoming{Store: c.store}.FilesOf(m)...)
	}
	for _, e := range slices.Concat(s.Outbox, s.Undelivered, s.HookCalls) {
		list = append(list, files.Summed{Name: e.File, Sum: e.Sum})
		for _, f := range e.Files {
			list = append(list, files.Summed{Name: f.File, Sum: f.Sum})
		}
	}
	for _, w := range s.Turn.Waiting {
		if w.Report != "" {
			list = append(list, files.Summed{Name: w.Report, Sum: w.Sum})
			list = append(list, files.Incoming{Store: c.store}.FilesIn(w.Report, w.Sum)...)
		}
	}
	for _, x := range s.Expected {
		list = append(list, files.Summed{Name: x.Cause.Payload, Sum: x.Cause.Sum})
		list = append(list, files.Incoming{Store: c.store}.FilesOf(x.Cause)...)
		if x.Report != "" {
			list = append(list, files.Summed{Name: x.Report, Sum: x.Sum})
			list = append(list, files.Incoming{Store: c.store}.FilesIn(x.Report, x.Sum)...)
		}
	}
	if s.Turn.Submitted != "" {
		list = append(list, files.Summed{Name: path.Join(attemptDir(s.Turn.TurnID, s.Turn.Epoch), s.Turn.Submitted), Sum: s.Turn.SubmittedSum})
	}
	for _, i := range items {
		list = append(list, files.Summed{Name: i.Payload, Sum: i.Sum})
		for n, f := range (files.Quarantined{Store: c.store}).Named(i) {
			if f.Missing == "" {
				list = append(list, files.Summed{Name: files.QuarantinedName(i.Key, n), Sum: f.SHA256})
			}
		}
	}
	return list, nil
}
