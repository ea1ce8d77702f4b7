import { UsageError } from '../../config/options.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { isFileWord } from '../file-word.ts';
import { outcomeLines } from '../gate-text.ts';
import { readKernelFlags } from '../kernel-flags.ts';
import type { LoadedFile } from '../local-kernels.ts';
import { profileLines } from '../profile-text.ts';
import { loadKernels, registerLocalKernel } from '../register-kernel.ts';
import { whileWaiting } from '../while-waiting.ts';

type LocalKernel = LoadedFile['kernels'][number];

/** A file is registered first; a name is that of a registered kernel. */
export const profile: CommandHandler = async ({
  client,
  words: [word = ''],
  flags,
  print,
  look,
  environment,
}) => {
  const { lanes, prefill } = flags;
  const options = {
    ...(lanes === undefined ? {} : { lanes: lanes as 32 }),
    ...(prefill === true ? { phase: 'prefill' as const } : {}),
  };
  let local: LocalKernel | undefined;
  if (await isFileWord(word, /\.(?:wgsl|[cm]?[jt]s)$/)) {
    const { kernels } = await loadKernels(word, readKernelFlags(flags));
    [local] = kernels;
    if (!local || kernels.length > 1)
      throw new UsageError([
        `${word}: expected one kernel, got ${kernels.length}; profile the others by name after check`,
      ]);
    const outcome = await whileWaiting(
      environment,
      `checking ${local.label}`,
      registerLocalKernel(client, word, local),
    );
    if (!outcome.report) {
      print({ ok: false, findings: outcome.findings }, () => outcomeLines(outcome, look));
      return exitCodes.failed;
    }
  }
  const kernel = local?.label ?? word;
  const result = await whileWaiting(
    environment,
    `profiling ${kernel}`,
    client.profile({ kernel, ...options }),
  );
  print(result, () => profileLines(result, look, local?.origin));
  return exitCodes.fine;
};
