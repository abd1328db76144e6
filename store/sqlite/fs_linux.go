package sqlite

import (
	"bufio"
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
	0x01021997: "9p",
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

// fuse carries local file systems and remote ones alike: its mount says which.
const fuse = 0x65735546

var remoteFuse = map[string]bool{
	"sshfs": true, "s3fs": true, "rclone": true, "gcsfuse": true, "glusterfs": true, "ceph-fuse": true, "ceph": true,
	"davfs": true, "davfs2": true, "curlftpfs": true, "juicefs": true, "goofys": true, "mount-s3": true, "mountpoint-s3": true,
	"blobfuse": true, "blobfuse2": true, "seaweedfs": true, "mfs": true, "moosefs": true, "lizardfs": true, "cvmfs2": true,
	"smbnetfs": true, "afpfs": true, "gvfsd-fuse": true, "nfs": true, "hdfs": true, "fuse_dfs": true, "weed": true,
}

// remote returns the name of the remote file system that a magic number and, of
// FUSE, the type of the mount stand for, or "".
func remote(magic uint32, mountType string) string {
	if magic != fuse {
		return remoteFileSystems[magic]
	}
	if kind, ok := strings.CutPrefix(mountType, "fuse."); ok && remoteFuse[kind] {
		return kind
	}
	return ""
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
	var mountType string
	if uint32(fs.Type) == fuse {
		if mountType, err = mountTypeOf(place); err != nil {
			return fmt.Errorf("look at the file system of %s: %w", place, err)
		}
	}
	if name := remote(uint32(fs.Type), mountType); name != "" {
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

// mountTypeOf returns the type of the mount that holds path, as in "fuse.sshfs".
func mountTypeOf(path string) (string, error) {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return "", err
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close()
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		if device, kind, ok := parseMount(lines.Text()); ok && device == deviceOf(uint64(stat.Dev)) {
			return kind, nil
		}
	}
	return "", lines.Err()
}

// parseMount reads the device and the type from a line of mountinfo:
//
//	36 35 98:0 /root /mountpoint rw,noatime master:1 - fuse.sshfs host:/dir rw
func parseMount(line string) (device, kind string, ok bool) {
	mount, source, ok := strings.Cut(line, " - ")
	fields, kinds := strings.Fields(mount), strings.Fields(source)
	if !ok || len(fields) < 3 || len(kinds) == 0 {
		return "", "", false
	}
	return fields[2], kinds[0], true
}

// deviceOf writes a device number as mountinfo does.
func deviceOf(device uint64) string {
	major := (device>>8)&0xfff | (device>>32)&^0xfff
	minor := device&0xff | (device>>12)&^0xff
	return fmt.Sprintf("%d:%d", uint32(major), uint32(minor))
}
