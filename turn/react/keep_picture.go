package react

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"

	"agentstateloop/internal/plain"
)

// resultFolder is the folder in the context folder for pictures that tools returned.
const resultFolder = "tool-results"

// KeepPicture keeps a picture that a tool returned, in the context folder, and returns it as a
// file to show. name is a valid file name without an extension; a name in use is an error. The
// file ends with the context folder of its attempt.
func (r Folders) KeepPicture(name string, data []byte) (Shown, error) {
	kind := http.DetectContentType(data)
	extension := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}[kind]
	switch {
	case extension == "":
		return Shown{}, fmt.Errorf("only PNG, JPEG, GIF and WebP can be shown, and it is %s", plain.Cut(kind, 100))
	case len(data) > maxImage:
		return Shown{}, fmt.Errorf("it is larger than %s, which is the most that can be shown of a picture", plain.Size(maxImage))
	case r.Context == "":
		return Shown{}, errors.New("no folder exists to keep it in")
	}
	place := path.Join(resultFolder, name+extension)
	if err := r.keep(place, data); err != nil {
		return Shown{}, pathError(place, err)
	}
	return r.look(place, true)
}

// keep writes a file in the context folder, which is read-only for all others.
func (r Folders) keep(name string, data []byte) error {
	root, err := os.OpenRoot(r.Context)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(".", 0o700); err != nil {
		return err
	}
	defer root.Chmod(".", 0o500)
	if err := root.MkdirAll(resultFolder, 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
