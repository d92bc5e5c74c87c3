package mail

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// spool holds a mail on disk while it is being proved. Its file has no name, so it disappears
// when the process ends, for whatever reason.
type spool struct{ file *os.File }

// newSpool reads a mail to its end. close frees the space.
func newSpool(mail io.Reader) (spool, error) {
	file, err := os.CreateTemp("", "agentstateloop-*.eml")
	if err != nil {
		return spool{}, err
	}
	s := spool{file}
	if err := os.Remove(file.Name()); err != nil {
		s.close()
		return spool{}, fmt.Errorf("remove the name of a temporary file: %w", err)
	}
	if _, err := io.Copy(file, mail); err != nil {
		s.close()
		return spool{}, err
	}
	return s, nil
}

// fromStart returns a reader of the whole mail. The previous reader cannot be used any more.
func (s spool) fromStart() (*bufio.Reader, error) {
	_, err := s.file.Seek(0, io.SeekStart)
	return bufio.NewReader(s.file), err
}

func (s spool) close() { s.file.Close() }
