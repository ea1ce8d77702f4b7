import { statSync } from 'node:fs';
import type { ChangeTool, Proposal, ToolOutput } from '../../tool.ts';
import type { Confinement } from '../paths/confinement.ts';
import { isWithin, resolvePath, UnresolvedPath } from '../paths/resolve-path.ts';
import { type GrantRoot, isAllowed, resolveGrantRoots, type PathGrants } from '../paths/grant-roots.ts';
import { withRefusalAsOutput, baseMovedError, escapeLine, Refusal } from '../refusal.ts';
import { globMatches } from '../../agents/name-glob.ts';
import type { Bubblewrap, SandboxLimits } from '../sandbox/bubblewrap.ts';
import { GuardedFiles } from '../sandbox/guarded-files.ts';
import { type CommandResult, runSandboxed } from '../sandbox/run-sandboxed.ts';
import type { StartedProcesses } from '../../started-processes.ts';
import type { SavedOutputs } from '../sandbox/saved-outputs.ts';
import { changeSchema, listSchema, integerSchema, pathSchema, textSchema } from './schema.ts';
import { readIntent } from './staged-file.ts';

const maxSeconds = 600;
/** Characters that a person can be expected to read before approving. */
const maxShown = 65_536;

interface CommandArguments {
  readonly intent: string;
  readonly argv: readonly string[];
  readonly cwd?: string;
  readonly timeout_secs?: number;
}

interface StagedCommand {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly grants: PathGrants;
  readonly timeout_secs: number;
  /** The task or run that may read the whole output; absent when its agent is not granted `fs_read`. */
  readonly reader?: string;
}

export interface CommandOptions {
  readonly confinement: Confinement;
  /** The sandbox, or the reason why there is none. */
  readonly sandbox: Bubblewrap | string;
  readonly limits: SandboxLimits;
  readonly outputs: SavedOutputs;
  readonly processes?: StartedProcesses | undefined;
}

export const runCommand = ({
  confinement,
  sandbox,
  limits,
  outputs,
  processes,
}: CommandOptions): ChangeTool => ({
  kind: 'change',
  name: 'run_command',
  description:
    'Runs a program in a sandbox without a network: it sees system programs and the granted paths, and writes only where writing is granted and in /tmp, which is gone afterwards. Of a long output it shows the beginning and the end.',
  source: 'builtin',
  inputSchema: changeSchema(
    {
      argv: listSchema(
        textSchema('', 32_768),
        1,
        200,
        'The program and its arguments; for a shell ["sh", "-c", "..."].',
      ),
      cwd: { ...pathSchema, description: 'Folder to run in; default the working folder.' },
      timeout_secs: integerSchema(1, maxSeconds, 'Default 60.'),
    },
    ['argv'],
  ),
  unavailable: () => (typeof sandbox === 'string' ? sandbox : undefined),
  propose: (args, context) =>
    withRefusalAsOutput(async (): Promise<Proposal> => {
      const { argv, cwd: argument, timeout_secs: timeout = 60 } = args as unknown as CommandArguments;
      if (argv[0] === '' || argv.some((one) => one.includes('\0') || !one.isWellFormed()))
        throw new Refusal('argv: expected a program and arguments without NUL characters.');
      const shown = argv.map(quoteArgument).join(' ');
      if (shown.length > maxShown)
        throw new Refusal(
          `argv: more than ${maxShown} characters, which is more than a person can approve; write a script to a file and run that.`,
        );
      const requestedCwd = argument ?? context.cwd;
      const cwd =
        requestedCwd === undefined
          ? '/tmp'
          : (await confinement.resolveAllowed(requestedCwd, context, 'read')).path;
      if (cwd !== '/tmp' && !isFolder(cwd)) throw new Refusal(`cwd: ${escapeLine(cwd)} is no folder.`);
      const { read, write, tools } = context.grants;
      const owner = context.taskId ?? context.runId;
      const reader = tools.some((glob) => globMatches(glob, 'fs_read')) ? owner : undefined;
      const payload: StagedCommand = {
        argv,
        cwd,
        grants: { read, write },
        timeout_secs: timeout,
        ...(reader === undefined ? {} : { reader }),
      };
      return {
        kind: 'exec',
        intent: readIntent(args),
        summary: `Run ${shown} in ${escapeLine(cwd)}, for at most ${timeout} s, in the sandbox.`,
        path: cwd,
        risk: 'high',
        payload,
      };
    }),
  async apply(payload, signal, approval, onOutput): Promise<ToolOutput> {
    const { argv, cwd, grants, timeout_secs: timeout, reader } = payload as StagedCommand;
    if (typeof sandbox === 'string') return { ok: false, output: sandbox, truncated: false };
    if (await confinement.isHostDataMoved())
      return { ok: false, output: hostDataMovedMessage, truncated: false };
    const roots = await resolveGrantRoots(grants);
    if (cwd !== '/tmp' && (!isAllowed(roots, cwd, 'read') || !(await isRealFolder(cwd))))
      throw baseMovedError(
        `${cwd} is no longer the folder that this command was proposed for, so it was not run.`,
      );
    const mounts = { roots: withWorkingFolder(roots, cwd), forbidden: confinement.forbidden };
    const save = () => outputs.create(reader);
    const command = {
      argv,
      mounts,
      cwd,
      timeoutMs: timeout * 1000,
      save,
      ...(onOutput ? { onOutput } : {}),
      ...(processes ? { processes } : {}),
    };
    const writable = roots.filter(({ write }) => write).map(({ path }) => path);
    const guarded = approval === 'grants' ? await GuardedFiles.save(writable) : undefined;
    let takenBack: readonly string[] = [];
    let run: CommandResult;
    try {
      run = await runSandboxed(sandbox, command, limits, signal);
    } finally {
      takenBack = (await guarded?.restore()) ?? [];
    }
    const head = run.endReason === undefined ? `exit code ${run.code}` : `[ended, because ${run.endReason}]`;
    return {
      ok: run.code === 0 && takenBack.length === 0,
      output: [head, ...takenBack.map((line) => `[${line}]`), run.output].join('\n').trimEnd(),
      truncated: run.truncated,
    };
  },
});

/** The sandbox has a /tmp of its own, also where all of the disk is granted: a working folder below it is mounted. */
function withWorkingFolder(roots: readonly GrantRoot[], cwd: string): readonly GrantRoot[] {
  if (cwd === '/tmp' || !isWithin('/tmp', cwd) || !roots.some(({ path }) => path === '/')) return roots;
  return [...roots, { path: cwd, granted: cwd, write: isAllowed(roots, cwd, 'write') }];
}

/** The host's data are hidden from commands by their path, so a moved folder would be visible. */
const hostDataMovedMessage =
  "No command was run: the host's own data are not where they were when it started. Put them back, or start the host again.";

/** Whether a path is still a folder without links in it. */
async function isRealFolder(path: string): Promise<boolean> {
  try {
    return (await resolvePath(path)).real === path && isFolder(path);
  } catch (error) {
    if (error instanceof UnresolvedPath) return false;
    throw error;
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

const quoteArgument = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${escapeLine(word).replaceAll("'", `'\\''`)}'`;
