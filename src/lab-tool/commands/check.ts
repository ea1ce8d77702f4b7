import { exitCodes, type CommandHandler } from '../context.ts';
import { FileError } from '../../terminal/file-error.ts';
import { registerLocalKernel, type GateOutcome, loadKernels } from '../register-kernel.ts';
import { outcomeLines } from '../gate-text.ts';
import { readKernelFlags } from '../kernel-flags.ts';
import { pluralize } from '../figures.ts';
import { UsageError } from '../../config/options.ts';
import { whileWaiting } from '../while-waiting.ts';

/** Reads all files before sending the first, so that a wrong file name is reported at once. */
export const check: CommandHandler = async ({ client, words: files, flags, print, look, environment }) => {
  const kernelFlags = readKernelFlags(flags);
  if (kernelFlags.name !== undefined && files.length > 1)
    throw new UsageError(['--name can be used with one file only']);
  const loaded: { file: string; kernels: Awaited<ReturnType<typeof loadKernels>>['kernels'] }[] = [];
  const unreadable: string[] = [];
  for (const file of files) {
    try {
      loaded.push({ file, kernels: (await loadKernels(file, kernelFlags)).kernels });
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      unreadable.push(error.message);
    }
  }
  if (unreadable.length > 0) throw new UsageError(unreadable);
  const outcomes: GateOutcome[] = [];
  for (const { file, kernels } of loaded)
    for (const kernel of kernels)
      outcomes.push(
        await whileWaiting(
          environment,
          `checking ${kernel.label}`,
          registerLocalKernel(client, file, kernel),
        ),
      );
  const accepted = outcomes.filter((outcome) => outcome.accepted).length;
  print({ ok: accepted === outcomes.length, kernels: outcomes.map(outcomeDocument) }, () => [
    ...outcomes.flatMap((outcome, index) => [...(index > 0 ? [''] : []), ...outcomeLines(outcome, look)]),
    ...(outcomes.length > 1 ? ['', `${accepted} of ${pluralize(outcomes.length, 'kernel')} accepted`] : []),
  ]);
  return accepted === outcomes.length ? exitCodes.fine : exitCodes.failed;
};

/** `--json` document of one kernel. */
export const outcomeDocument = ({ file, kernel, op, accepted, findings, report }: GateOutcome) => ({
  file,
  kernel,
  op: op ?? null,
  accepted,
  findings,
  report: report ?? null,
});
