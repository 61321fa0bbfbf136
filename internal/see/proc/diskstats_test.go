package proc

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDiskRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "diskstats")
	expected := map[string]struct {
		disks, partitions int
		some              []Disk
	}{
		"p037": {-1, -1, []Disk{
			{Major: 8, Name: "sda", Reads: 14181, ReadSectors: 898418, ReadMS: 125977, Writes: 19819, WriteSectors: 582524, WriteMS: 2007972, BusyMS: 294789, WeightedMS: 2133949},
			{Major: 104, Minor: 1, Name: "cciss/c0d0p1", Partition: true, Reads: 34, ReadSectors: 896, ReadMS: 107, BusyMS: 107, WeightedMS: 107},
			{Major: 253, Minor: 4, Name: "dm-4", Reads: 15, ReadSectors: 120, ReadMS: 37, BusyMS: 37, WeightedMS: 37},
		}},
		"p039": {10, 2, []Disk{
			{Major: 252, Name: "zram0", Reads: 285, ReadSectors: 2280, Writes: 1354, WriteSectors: 10832, BusyMS: 4},
			{Major: 8, Minor: 2, Name: "sda2", Partition: true, Reads: 1902222, ReadSectors: 65763084, ReadMS: 784276, Writes: 2489172, WriteSectors: 290339819, WriteMS: 8594247, BusyMS: 1558933, WeightedMS: 7847693},
		}},
		"p040": {-1, -1, []Disk{
			{Major: 8, Minor: 33, Name: "sdc1", Partition: true, Reads: 231, ReadSectors: 34466, ReadMS: 4, Writes: 24, WriteSectors: 106, BusyMS: 64, WeightedMS: 64},
		}},
		"p042": {21, 12, []Disk{
			{Major: 8, Minor: 32, Name: "sdc"},
			{Major: 65, Name: "sdq", Reads: 50601, ReadSectors: 3198498, ReadMS: 624970, BusyMS: 32862, WeightedMS: 714408},
			{Major: 65, Minor: 32, Name: "sds", Reads: 555, ReadSectors: 9594, ReadMS: 890, Writes: 897, WriteSectors: 9096, WriteMS: 5002, BusyMS: 962, WeightedMS: 10002},
		}},
		"p043": {29, 6, []Disk{
			{Major: 9, Minor: 1, Name: "md1", Reads: 43674393, ReadSectors: 1796434600, Writes: 3610616456, WriteSectors: 119095117160},
			{Major: 259, Minor: 2, Name: "nvme0n1p2", Partition: true, Reads: 10219, ReadSectors: 654412, ReadMS: 1509, Writes: 15875250, WriteSectors: 742747624, WriteMS: 3119250, BusyMS: 24574672, WeightedMS: 387804},
			{Major: 179, Minor: 24, Name: "mmcblk1", Reads: 144, ReadSectors: 7784, ReadMS: 338, BusyMS: 260, WeightedMS: 338},
			{Major: 2, Name: "fd0"},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		disks, err := ParseDisks(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		lines, partitions := strings.Count(string(rows[id]), "\n"), 0
		for _, d := range disks {
			if d.Partition {
				partitions++
			}
		}
		if len(disks) != lines || e.disks >= 0 && (len(disks) != e.disks || partitions != e.partitions) {
			t.Errorf("%s: %d disks of %d lines, %d partitions", id, len(disks), lines, partitions)
		}
		for _, d := range e.some {
			if !slices.Contains(disks, d) {
				i := slices.IndexFunc(disks, func(x Disk) bool { return x.Name == d.Name })
				t.Errorf("%s: %+v\nexpected %+v", id, disks[max(i, 0)], d)
			}
		}
	}
}

func TestParseDisks(t *testing.T) {
	t.Parallel()
	disks, err := ParseDisks([]byte(" 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 short 1 2 3\n 8 2 sdb x 2 3 4 5 6 7 8 9 10 11\n 8 3 xvda1 1 2 3 4 5 6 7 8 9 10 11\n 8 4 sda1 1 2 3 4 5 6 7 8 9 10 1"))
	if err != nil || len(disks) != 2 || disks[1].Name != "xvda1" || disks[1].Partition {
		t.Errorf("%+v %v", disks, err)
	}
	if disks, err := ParseDisks(nil); disks != nil || err != nil {
		t.Errorf("%v %v", disks, err)
	}
	if _, err := ParseDisks([]byte("8 0 sda 1\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

// sysfs knows better than names: a whole disk may be called xvda1, and a
// partition may stand without its disk.
func TestTellPartition(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{
		"proc/diskstats":                " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n 9 9 odd 1 2 3 4 5 6 7 8 9 10 11\n 104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n",
		"sys/dev/block/8:1/size":        "1\n",
		"sys/dev/block/9:9/partition":   "1\n",
		"sys/block/cciss!c0d0/c0d0p1/x": "",
	})
	disks, err := f.Disks()
	if err != nil || len(disks) != 4 {
		t.Fatal(disks, err)
	}
	if disks[0].Partition || disks[1].Partition || !disks[2].Partition || disks[3].Partition {
		t.Errorf("%+v", disks)
	}
}
