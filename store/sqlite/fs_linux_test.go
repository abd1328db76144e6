package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRemoteFileSystems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		magic uint32
		at    mount
		want  string
	}{
		{"ext4", 0xef53, mount{}, ""},
		{"xfs", 0x58465342, mount{}, ""},
		{"btrfs", 0x9123683e, mount{}, ""},
		{"zfs", 0x2fc12fc1, mount{}, ""},
		{"tmpfs", 0x01021994, mount{}, ""},
		{"overlay", 0x794c7630, mount{}, ""},
		{"NFS", 0x6969, mount{}, "NFS"},
		{"CIFS", 0xff534d42, mount{}, "CIFS"},
		{"SMB 2", 0xfe534d42, mount{}, "SMB"},
		{"Ceph", 0x00c36400, mount{}, "Ceph"},
		{"9p", v9fs, mount{kind: "9p", options: "rw,trans=virtio,version=9p2000.L"}, "9p"},
		{"9p of gVisor", v9fs, mount{kind: "9p", options: "rw,trans=fd,rfdno=4,wfdno=4,aname=/,directfs"}, ""},
		{"sshfs", fuse, mount{kind: "fuse.sshfs"}, "sshfs"},
		{"a bucket", fuse, mount{kind: "fuse.rclone"}, "rclone"},
		{"FUSE on a local disk", fuse, mount{kind: "fuseblk"}, ""},
		{"FUSE that merges local disks", fuse, mount{kind: "fuse.mergerfs"}, ""},
	} {
		if got := remote(c.magic, c.at); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMountOf(t *testing.T) {
	t.Parallel()
	const mountinfo = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard
30 22 0:26 / /proc rw - proc proc rw
99 22 0:52 / /srv/with\040space rw,nosuid shared:9 - fuse.sshfs me@host:/srv rw,user_id=0
40 22 0:31 / /data rw - nfs4 host:/data rw,vers=4.2
41 22 0:32 / /data rw - tmpfs tmpfs rw
no mount at all
42 22 0:33 / - short
`
	for path, want := range map[string]string{
		"/home/a.db":            "ext4",
		"/srv/with space/a.db":  "fuse.sshfs",
		"/srv/with space":       "fuse.sshfs",
		"/srv/with spaces/a.db": "ext4",
		"/data/a.db":            "tmpfs", // mounted over the other
		"/database/a.db":        "ext4",
		"/..data/..a.db":        "ext4",
	} {
		if got := mountOf(path, mountinfo).kind; got != want {
			t.Errorf("%s: on %q, want %q", path, got, want)
		}
	}
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if got := mountOf("/proc/self/status", string(own)).kind; got != "proc" {
		t.Errorf("/proc of this machine is on %q", got)
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
