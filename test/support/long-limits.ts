/**
 * Loaded into a process before its program (`longLimits` in host.ts): makes its time limits so long that none is
 * reached. A process that still ends was not ended by a limit, however slow the machine is.
 */
const from = Number(process.env['LATHE_TEST_LONG_FROM']);
const plain = globalThis.setTimeout;
globalThis.setTimeout = Object.assign(
  (run: (...values: unknown[]) => void, ms = 0, ...values: unknown[]) =>
    plain(run, ms >= from ? ms * 1000 : ms, ...values),
  plain,
);
