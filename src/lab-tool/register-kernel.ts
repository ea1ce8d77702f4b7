import { didYouMean } from '../words/nearest.ts';
import { UsageError } from '../config/options.ts';
import type { Finding, KernelRegistrationReport, StageName } from '../lab/types.ts';
import type { LabClient } from './client.ts';
import { HostError } from '../host-client/errors.ts';
import { describesKernel, type KernelFlags } from './kernel-flags.ts';
import { readModuleKernels } from './kernel-module.ts';
import {
  isModule,
  type LoadedFile,
  type LocalKernel,
  type SourceOrigin,
  readWgslKernel,
} from './local-kernels.ts';

/** A finding with its location in the author's file. */
export interface LocalFinding extends Finding {
  readonly file: string;
  /** Absent for findings of the tool itself. */
  readonly stage?: StageName;
}

/** Result for one kernel of a file. */
export interface GateOutcome {
  /** Path as given by the author. */
  readonly file: string;
  readonly kernel: string;
  readonly op?: string;
  readonly accepted: boolean;
  readonly findings: readonly LocalFinding[];
  /** Absent when the kernel has errors and was not sent, or the host rejected the request. */
  readonly report?: KernelRegistrationReport;
  readonly bind: readonly string[];
  /** Source lines by file, to show them in findings. */
  readonly lines: ReadonlyMap<string, readonly string[]>;
}

/** Reads the kernels of a file. Throws `FileError`, and `UsageError` for flags that the file does not support. */
export async function loadKernels(file: string, flags: KernelFlags): Promise<LoadedFile> {
  if (!isModule(file)) return await readWgslKernel(file, flags);
  if (describesKernel(flags))
    throw new UsageError([`${file}: kernel flags do not apply to modules; set the values in defineKernel`]);
  return await readModuleKernels(file);
}

/** Registers a kernel. Throws `HostError` only if the host is unavailable or rejects the credentials. */
export async function registerLocalKernel(
  client: LabClient,
  file: string,
  kernel: LocalKernel,
  signal?: AbortSignal,
): Promise<GateOutcome> {
  const { registration, label, origin, bind } = kernel;
  const base = {
    file,
    kernel: label,
    ...(registration === undefined ? {} : { op: registration.op }),
    bind,
    lines: new Map([[origin.file, origin.lines]]),
  };
  const localize = (findings: readonly Finding[], stage?: StageName): LocalFinding[] =>
    findings.map((finding) => ({
      ...toFileLocation(finding, origin),
      ...(stage === undefined ? {} : { stage }),
    }));
  if (registration === undefined) return { ...base, accepted: false, findings: localize(kernel.faults) };
  try {
    const report = await client.register(registration, signal);
    const findings = report.stages.flatMap(({ stage, findings: stageFindings }) =>
      localize(stageFindings, stage),
    );
    return { ...base, accepted: report.accepted, findings, report };
  } catch (error) {
    if (!(error instanceof HostError) || error.isTransient || error.status === 401 || error.status === 403)
      throw error;
    return {
      ...base,
      accepted: false,
      findings: refusalFindings(error, kernel, await suggestOp(client, error, registration.op)),
    };
  }
}

async function suggestOp(client: LabClient, { code }: HostError, op: string): Promise<string> {
  if (code !== 'unknown_op') return '';
  const ops = await client.ops().catch(() => []);
  return didYouMean(
    op,
    ops.map((each) => each.op),
    (near) => `'${near}'`,
  );
}

/** Converts the errors of a rejected request to findings at the directives of the file. */
function refusalFindings(
  { code, message, violations }: HostError,
  kernel: LocalKernel,
  hint: string,
): LocalFinding[] {
  const faults =
    violations.length > 0
      ? violations
      : [{ path: code === 'unknown_op' ? 'op' : '', message: message + hint }];
  return faults.map(({ path, message: text }) => {
    const key = path.split('.')[0] ?? '';
    const place = kernel.places.get(directiveByMember[key] ?? key);
    const named = violations.length > 0 && path !== '' ? `${path}: ${text}` : text;
    return { code, severity: 'error', message: named, file: kernel.origin.file, ...place };
  });
}

const directiveByMember: Readonly<Record<string, string>> = {
  overrides: 'override',
  tunables: 'tune',
  entry_point: 'entry',
};

function toFileLocation(finding: Finding, { file, above, before }: SourceOrigin): LocalFinding {
  const { line, column } = finding;
  return {
    ...finding,
    file,
    ...(line === undefined ? {} : { line: line + above }),
    ...(column === undefined ? {} : { column: line === 1 ? column + before : column }),
  };
}
