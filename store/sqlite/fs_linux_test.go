package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRemoteFileSystems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		magic     uint32
		mountType string
		want      string
	}{
		{"ext4", 0xef53, "", ""},
		{"xfs", 0x58465342, "", ""},
		{"btrfs", 0x9123683e, "", ""},
		{"zfs", 0x2fc12fc1, "", ""},
		{"tmpfs", 0x01021994, "", ""},
		{"overlay", 0x794c7630, "", ""},
		{"NFS", 0x6969, "", "NFS"},
		{"CIFS", 0xff534d42, "", "CIFS"},
		{"SMB 2", 0xfe534d42, "", "SMB"},
		{"9p", 0x01021997, "", "9p"},
		{"Ceph", 0x00c36400, "", "Ceph"},
		{"sshfs", fuse, "fuse.sshfs", "sshfs"},
		{"a bucket", fuse, "fuse.rclone", "rclone"},
		{"FUSE on a local disk", fuse, "fuseblk", ""},
		{"FUSE that merges local disks", fuse, "fuse.mergerfs", ""},
	} {
		if got := remote(c.magic, c.mountType); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParseMount(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw":          {"98:0", "ext4"},
		"99 35 0:52 / /mnt/a\\040b rw shared:9 - fuse.sshfs me@host:/srv rw": {"0:52", "fuse.sshfs"},
		"no separator":                    {},
		"36 35 - ext4 /dev/root rw":       {},
		"36 35 98:0 / /mnt rw,noatime - ": {},
	} {
		device, kind, ok := parseMount(line)
		if got := [2]string{device, kind}; got != want || ok != (want[0] != "") {
			t.Errorf("%q: got %v, %v, want %v", line, got, ok, want)
		}
	}
}

// The mount of this very machine's root is found by its device.
func TestMountTypeOf(t *testing.T) {
	t.Parallel()
	kind, err := mountTypeOf("/proc/self")
	if err != nil || kind != "proc" {
		t.Errorf("got %q, %v, want proc", kind, err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat("/dev/null", &stat); err != nil {
		t.Fatal(err)
	}
	if got := deviceOf(uint64(stat.Rdev)); got != "1:3" {
		t.Errorf("/dev/null is device %s, want 1:3", got)
	}
}

func TestCheckFileSystemFollowsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink("/proc/self/status", link); err != nil {
		t.Fatal(err)
	}
	if got, err := existing(link); err != nil || filepath.Dir(filepath.Dir(got)) != "/proc" {
		t.Errorf("got %q, %v, want the file in /proc", got, err)
	}
	if err := checkFileSystem(filepath.Join(dir, "new.db")); err != nil {
		t.Errorf("a new file on a local disk: %v", err)
	}
}
