import { randomBytes } from 'node:crypto';
import { UsageError } from '../../config/options.ts';
import { isConfigName } from '../../lab/types.ts';
import { splitList } from '../../terminal/arguments.ts';
import { printable } from '../../terminal/printable.ts';
import { interruptedExitCode, onStopSignals } from '../../terminal/stop-signals.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { readText } from '../local-kernels.ts';
import { commandProposer } from '../search/command-proposer.ts';
import { Journal } from '../search/journal.ts';
import { MechanicalProposer } from '../search/mechanical.ts';
import { modelProposer } from '../search/model-proposer.ts';
import { runSearch } from '../search/run-search.ts';
import { attemptLine, outcomeLines } from '../search/search-text.ts';
import type { Proposer } from '../search/types.ts';

const units = { s: 1000, m: 60_000, h: 3_600_000 } as const;
const defaultBudget = '10m';

/** Ctrl-C ends a search; the same command goes on with it. */
export const search: CommandHandler = async ({
  client,
  words: [op = ''],
  flags,
  print,
  look,
  environment,
}) => {
  const faults: string[] = [];
  const budget = /^(\d+(?:\.\d+)?)([smh])$/.exec(flags.budget ?? defaultBudget);
  if (!budget) faults.push(`--budget: expected a number with s, m or h, such as 30m, got '${flags.budget}'`);
  const goal = flags.goal ?? 'decode';
  if (goal !== 'decode' && goal !== 'prefill')
    faults.push(`--goal: expected decode or prefill, got '${goal}'`);
  if (flags.command !== undefined && flags.model !== undefined)
    faults.push('--command and --model exclude each other');
  if (flags.model === undefined && (flags['model-url'] ?? flags['model-key-file']) !== undefined)
    faults.push('--model-url and --model-key-file need --model');
  const config = flags.name ?? `search-${op.replaceAll('_', '-')}`;
  if (!isConfigName(config))
    faults.push(`--name: expected letters, digits, '.', '_' and '-', at most 64 characters, got '${config}'`);
  if (faults.length > 0) throw new UsageError(faults);

  const ops = await client.ops();
  const descriptor = ops.find((one) => one.op === op);
  if (!descriptor)
    throw new UsageError([`there is no op '${op}'; expected one of ${ops.map((one) => one.op).join(', ')}`]);
  const { model } = await client.graph();
  const components = splitList(flags.bind);
  const { stdout } = environment;
  const { 'model-key-file': keyFile, 'model-url': modelUrl } = flags;
  // The host's token is for the host alone.
  const ownKey = modelUrl === undefined ? client.token : undefined;
  const key = keyFile === undefined ? ownKey : (await readText(keyFile, keyFile)).trim();
  const proposers: Proposer[] = [
    new MechanicalProposer(
      client,
      op,
      descriptor.targets,
      components.find((id) => !id.includes('*')),
    ),
    ...(flags.command === undefined ? [] : [commandProposer(flags.command)]),
    ...(flags.model === undefined
      ? []
      : [modelProposer({ baseUrl: modelUrl ?? `${client.url}/v1`, model: flags.model, key })]),
  ];
  const journalFile = flags.journal ?? `${config}.jsonl`;
  const journal = await Journal.open(journalFile, {
    id: randomBytes(3).toString('hex'),
    op,
    model,
    goal: goal as 'decode' | 'prefill',
    at: new Date().toISOString(),
  });
  const stop = new AbortController();
  onStopSignals(environment.signals, (request) => {
    if (request > 1) environment.exit(interruptedExitCode);
    stop.abort(new Error('the search was interrupted'));
  });
  environment.stdoutClosed.addEventListener('abort', () => stop.abort(new Error('nobody reads the output')));
  const isJson = flags.json === true;
  if (!isJson) {
    const known = journal.attempts.length;
    if (known > 0) stdout.write(`going on after ${known} attempts in ${printable(journalFile)}\n`);
  }
  try {
    const outcome = await runSearch(
      {
        op,
        goal: goal as 'decode' | 'prefill',
        budgetMs: Number(budget?.[1]) * units[budget?.[2] as keyof typeof units],
        components,
        config,
        isSavedAnyway: flags.force === true,
      },
      {
        client,
        journal,
        proposers,
        signal: stop.signal,
        onAttempt: (attempt) => {
          if (!isJson) stdout.write(`${attemptLine(attempt, look)}\n`);
        },
      },
    );
    print({ ...outcome, journal: journalFile }, () =>
      outcomeLines(outcome, { journal: journalFile, op }, look),
    );
    if (outcome.isInterrupted) return interruptedExitCode;
    return outcome.isBetter === true ? exitCodes.fine : exitCodes.failed;
  } finally {
    await journal.close();
  }
};
