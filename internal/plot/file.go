package plot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CheckFile refuses a file whose name does not end in .svg or .png.
func CheckFile(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("%s: must end in .svg or .png", path)
}

// WriteFile draws the chart into a file, as SVG or PNG by the end of its name. Where the
// chart cannot be drawn, the file is left as it is.
func (c Chart) WriteFile(path string) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	write := c.WriteSVG
	if strings.EqualFold(filepath.Ext(path), ".png") {
		write = c.WritePNG
	}
	var picture bytes.Buffer
	if err := write(&picture); err != nil {
		return err
	}
	return os.WriteFile(path, picture.Bytes(), 0o644)
}
