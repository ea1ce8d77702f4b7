import { cpus } from 'node:os';

/** Processor time of this process so far, in ms. */
export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Processor time of the whole machine so far, in ms. */
const machineCpuMs = (): number =>
  cpus().reduce((total, { times }) => total + times.user + times.nice + times.sys + times.irq, 0);

/**
 * Measures how many cores other processes keep busy, on average until the returned function is called. Figures of a
 * software adapter are reliable only when this is small.
 * @param measuredMs processor time so far of the measured processes
 */
export function watchOtherLoad(measuredMs: () => number = ownCpuMs): () => number {
  const start = { at: performance.now(), busy: machineCpuMs(), measured: measuredMs() };
  return () => {
    const otherMs = machineCpuMs() - start.busy - (measuredMs() - start.measured);
    return Number(Math.max(0, otherMs / (performance.now() - start.at)).toFixed(2));
  };
}
