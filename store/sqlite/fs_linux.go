package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// remoteFileSystems are those that other machines write to as well, by the magic
// number that statfs gives.
var remoteFileSystems = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	v9fs:       "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0xaad7aaea: "PanFS",
	0x7461636f: "OCFS2",
	0x01161970: "GFS2",
	0x786f4256: "a VirtualBox shared folder",
}

// Of these the mount says which kind it is.
const (
	fuse = 0x65735546 // local file systems and remote ones alike
	v9fs = 0x01021997 // a server elsewhere, or gVisor's way to its own sandbox
)

var remoteFuse = map[string]bool{
	"sshfs": true, "s3fs": true, "rclone": true, "gcsfuse": true, "glusterfs": true, "ceph-fuse": true, "ceph": true,
	"davfs": true, "davfs2": true, "curlftpfs": true, "juicefs": true, "goofys": true, "mount-s3": true, "mountpoint-s3": true,
	"blobfuse": true, "blobfuse2": true, "seaweedfs": true, "mfs": true, "moosefs": true, "lizardfs": true, "cvmfs2": true,
	"smbnetfs": true, "afpfs": true, "gvfsd-fuse": true, "nfs": true, "hdfs": true, "fuse_dfs": true, "weed": true,
}

// mount is what a line of mountinfo says of a mounted file system.
type mount struct {
	point   string
	kind    string // "ext4", "fuse.sshfs"
	options string // of the file system, not of the mount
}

// remote returns the name of the remote file system that a magic number and, of
// FUSE and 9p, the mount stand for, or "".
func remote(magic uint32, at mount) string {
	switch magic {
	case fuse:
		if kind, ok := strings.CutPrefix(at.kind, "fuse."); ok && remoteFuse[kind] {
			return kind
		}
		return ""
	case v9fs:
		if strings.Contains(at.options, "directfs") || strings.Contains(at.options, "overlayfs_stale_read") {
			return "" // options that only gVisor has: the files are this machine's
		}
	}
	return remoteFileSystems[magic]
}

// checkFileSystem refuses a file that another machine could open as well.
func checkFileSystem(path string) error {
	place, err := existing(path)
	if err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(place, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", place, err)
	}
	magic := uint32(fs.Type)
	var at mount
	if magic == fuse || magic == v9fs {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return fmt.Errorf("look at the file system of %s: %w", place, err)
		}
		at = mountOf(place, string(mounts))
	}
	if name := remote(magic, at); name != "" {
		return fmt.Errorf("%s is on a network file system (%s), where SQLite's locks do not hold; use a local disk, or PostgreSQL for several machines", path, name)
	}
	return nil
}

// existing returns the file, links resolved, or its directory if it is not there.
func existing(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if os.IsNotExist(err) {
		return filepath.EvalSymlinks(filepath.Dir(path))
	}
	return resolved, err
}

// mountOf returns the mount that holds path: the nearest above it and, of several
// in one place, the last, which hides the others.
func mountOf(path, mountinfo string) (holder mount) {
	for line := range strings.Lines(mountinfo) {
		at, ok := parseMount(line)
		below, err := filepath.Rel(at.point, path)
		if ok && err == nil && filepath.IsLocal(below) && len(at.point) >= len(holder.point) {
			holder = at
		}
	}
	return holder
}

// parseMount reads a line of mountinfo:
//
//	36 35 98:0 /root /mountpoint rw,noatime master:1 - fuse.sshfs host:/dir rw
func parseMount(line string) (at mount, ok bool) {
	place, system, ok := strings.Cut(line, " - ")
	places, systems := strings.Fields(place), strings.Fields(system)
	if !ok || len(places) < 5 || len(systems) < 3 {
		return mount{}, false
	}
	point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(places[4])
	return mount{point: point, kind: systems[0], options: systems[2]}, true
}
