import { cpus, loadavg, release, totalmem, type } from 'node:os';
import type { Machine } from '../types.ts';

/** Facts of this machine, for the evidence of a config. @param lathe version of the host */
export const describeMachine = (lathe: string): Machine => ({
  lathe,
  node: process.versions.node,
  os: `${type()} ${release()}`,
  cpu: cpus()[0]?.model.trim() ?? process.arch,
  cores: cpus().length,
  memory_bytes: totalmem(),
  load: loadavg()[0] ?? 0,
});
