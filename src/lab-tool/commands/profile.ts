import { UsageError } from '../../config/options.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { isFileWord } from '../file-word.ts';
import { outcomeLines } from '../gate-text.ts';
import { HostError } from '../../host-client/errors.ts';
import type { LabClient } from '../client.ts';
import { describesKernel, readKernelFlags } from '../kernel-flags.ts';
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
  let isReplaced = false;
  if (await isFileWord(word, /\.(?:wgsl|[cm]?[jt]s)$/)) {
    const { kernels } = await loadKernels(word, readKernelFlags(flags));
    [local] = kernels;
    if (!local || kernels.length > 1)
      throw new UsageError([
        `${word}: expected one kernel, got ${kernels.length}; profile the others by name after check`,
      ]);
    const before = describesKernel(readKernelFlags(flags))
      ? await registeredDigest(client, local)
      : undefined;
    const outcome = await whileWaiting(
      environment,
      `checking ${local.label}`,
      registerLocalKernel(client, word, local),
    );
    if (!outcome.report) {
      print({ ok: false, findings: outcome.findings }, () => outcomeLines(outcome, look));
      return exitCodes.failed;
    }
    isReplaced = before !== undefined && before !== outcome.report.digest;
  }
  const kernel = local?.label ?? word;
  const result = await whileWaiting(
    environment,
    `profiling ${kernel}`,
    client.profile({ kernel, ...options }),
  );
  print(result, () => [
    ...profileLines(result, look, local?.origin),
    ...(isReplaced
      ? [
          '',
          `${kernel} is registered with these flags now, and a later bind uses them: check the file again to undo it.`,
        ]
      : []),
  ]);
  return exitCodes.fine;
};

/** Digest of what is registered under the name of a kernel; undefined when nothing is. */
async function registeredDigest(
  client: LabClient,
  { registration }: LocalKernel,
): Promise<string | undefined> {
  if (registration === undefined) return undefined;
  try {
    return (await client.kernel(registration.name)).report.digest;
  } catch (error) {
    if (error instanceof HostError && error.status === 404) return undefined;
    throw error;
  }
}
