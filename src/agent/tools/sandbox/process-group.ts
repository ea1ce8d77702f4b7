import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as after } from 'node:timers/promises';

/** Where control groups that count processes are made: version 1, version 2. */
const places = ['/sys/fs/cgroup/pids', '/sys/fs/cgroup'];
let made = 0;

/** A control group that holds a number of processes and no more, for hosts whose user the kernel counts none of. */
export class ProcessGroup {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** @returns undefined where groups cannot be made */
  static make(place: string, processes: number): ProcessGroup | undefined {
    made += 1;
    const folder = `${place}/lathe-${process.pid}-${made}`;
    try {
      mkdirSync(folder);
    } catch {
      return undefined;
    }
    try {
      writeFileSync(`${folder}/pids.max`, String(processes));
      return new ProcessGroup(folder);
    } catch {
      rmdirSync(folder);
      return undefined;
    }
  }

  /** Where they can be made. Only for root: rlimits do for everybody else. */
  static place(): string | undefined {
    if (process.getuid?.() !== 0) return undefined;
    return places.find((place) => {
      const probe = ProcessGroup.make(place, 1);
      if (probe) rmdirSync(probe.#folder);
      return probe !== undefined;
    });
  }

  /** What goes in front of a command line, so that it starts in the group. */
  get prefix(): string[] {
    return ['sh', '-c', 'echo $$ > "$0" && exec "$@"', `${this.#folder}/cgroup.procs`];
  }

  /** When all processes were ended: they may take a moment to be gone. */
  async remove(): Promise<void> {
    for (let left = 50; left > 0; left -= 1) {
      try {
        rmdirSync(this.#folder);
        return;
      } catch {
        await after(20);
      }
    }
  }
}
