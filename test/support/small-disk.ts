import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const mount = (...args: string[]) => spawnSync('mount', args, { encoding: 'utf8' });

/** Why this machine mounts nothing for this user; undefined where it does. */
export function noDisks(): string | undefined {
  if (process.platform !== 'linux') return 'only on Linux';
  const disk = tryDisk('64k');
  disk?.remove();
  return disk ? undefined : 'this user may not mount a file system';
}

/** A file system of its own in memory. @param size as in `4m` */
export function smallDisk(size: string) {
  const disk = tryDisk(size);
  if (!disk) throw new Error('this user may not mount a file system');
  return disk;
}

function tryDisk(size: string) {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-disk-'));
  if (mount('-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder).status !== 0) {
    rmdirSync(folder);
    return undefined;
  }
  chmodSync(folder, 0o777);
  const ballast = join(folder, 'ballast');
  return {
    folder,
    /** Leaves no room but for `bytes`. */
    fill: (bytes = 0) => {
      const room = Number(spawnSync('stat', ['-f', '-c', '%a', folder], { encoding: 'utf8' }).stdout) * 4096;
      try {
        writeFileSync(ballast, Buffer.alloc(Math.max(0, room - bytes)));
      } catch (error) {
        // Another writer may have taken some of the space: the disk is full either way.
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    },
    makeRoom: () => rmSync(ballast, { force: true }),
    makeReadOnly: () => mount('-o', 'remount,ro', folder),
    /** Also while somebody uses it. */
    remove: () => {
      spawnSync('umount', ['-l', folder]);
      rmdirSync(folder);
    },
  };
}
