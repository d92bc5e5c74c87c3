package cycle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// wholeMail returns a reader of the mail of an effect: the rendered bytes, with the attachments
// that are kept apart. Each attachment is compared with its sum beforehand, and again during
// the send: a difference is then an error of the reader, before the final dot. Files need not
// fit into memory. The caller calls closeAll.
func wholeMail(st *store.Store, e state.Effect, rendered []byte) (whole io.Reader, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	var contents []io.Reader
	for _, ref := range e.Files {
		f, err := st.OpenSummed(ref.File, ref.Sum, ref.Size)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, f)
		contents = append(contents, &summedReader{from: f, name: ref.File, sum: ref.Sum, hash: sha256.New()})
	}
	if len(contents) == 0 {
		return bytes.NewReader(rendered), closeAll, nil
	}
	if whole, err = message.Whole(rendered, contents); err != nil {
		closeAll()
		return nil, nil, store.Damaged(e.File, err)
	}
	return whole, closeAll, nil
}

// summedReader reads a file, and fails at its end if the content does not match its sum.
type summedReader struct {
	from      io.Reader
	name, sum string
	hash      hash.Hash
}

func (r *summedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.hash.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(r.hash.Sum(nil)) != r.sum {
		err = store.Damaged(r.name, errors.New("it was changed while it was sent"))
	}
	return n, err
}
