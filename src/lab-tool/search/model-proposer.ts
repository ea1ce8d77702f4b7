/** Proposals of a language model behind any server with OpenAI's chat completions. */
import { errorMessage } from '../../util/error-message.ts';
import { ideaOf } from './command-proposer.ts';
import type { Proposer, ProposerAnswer, SearchState } from './types.ts';

export interface ModelAddress {
  /** Up to and without `/chat/completions`. */
  readonly baseUrl: string;
  readonly model: string;
  readonly key?: string | undefined;
}

const timeoutMs = 10 * 60_000;
const maxFindings = 8;

const instructions = `You write WGSL compute kernels for a lab that checks them against an oracle and measures them. Answer with one
complete kernel in a single fenced block, with its //! directives at the top and, in the line after them, a comment that says in a few
words what is different about it. Keep bindings, structs and names of the stub. Every row and column must be computed for all sizes;
tricks that depend on sizes, positions or data are found and refused.`;

export const modelProposer = (address: ModelAddress): Proposer => ({
  name: 'model',
  propose: (state, signal) => ask(address, state, signal),
});

async function ask(
  { baseUrl, model, key }: ModelAddress,
  state: SearchState,
  signal: AbortSignal,
): Promise<ProposerAnswer> {
  try {
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({
        model,
        messages: [
          { role: 'system', content: instructions },
          { role: 'user', content: promptOf(state) },
        ],
      }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    const text = await response.text();
    if (!response.ok) return { kind: 'failed', message: `status ${response.status}: ${text.slice(0, 300)}` };
    const answer = JSON.parse(text) as { choices?: { message?: { content?: unknown } }[] };
    const content = answer.choices?.[0]?.message?.content;
    if (typeof content !== 'string') return { kind: 'failed', message: 'the answer has no text' };
    const source = [...content.matchAll(/```[\w-]*\n([\s\S]*?)```/g)].at(-1)?.[1];
    if (source === undefined) return { kind: 'failed', message: 'the answer has no fenced block' };
    return { kind: 'proposal', proposal: { source, idea: ideaOf(source) } };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { kind: 'failed', message: errorMessage(error) };
  }
}

function promptOf({ op, goal, stub, best, last, hints, attempts }: SearchState): string {
  const fence = (source: string) => `\`\`\`wgsl\n${source}\n\`\`\``;
  const findings = (last?.findings ?? [])
    .slice(0, maxFindings)
    .map(({ code, message, line }) => `- ${code}${line === undefined ? '' : `, line ${line}`}: ${message}`);
  return [
    `Op: ${op}. Goal: faster ${goal}. The stub is correct:`,
    fence(stub),
    ...(best
      ? [
          `The best so far, ${best.ratio?.toFixed(3)} times as fast as the built-in kernel:`,
          fence(best.source),
        ]
      : []),
    ...(last && last !== best ? [`Your last one was ${last.verdict}:`, fence(last.source)] : []),
    ...(findings.length > 0 ? ['Its findings:', ...findings] : []),
    ...(hints.length > 0 ? ['Hints of the profiler:', ...hints.map((hint) => `- ${hint}`)] : []),
    'Tried before:',
    ...attempts.map(
      ({ n, idea, verdict, ratio }) =>
        `- ${n} ${idea}: ${verdict}${ratio === undefined ? '' : `, ${ratio.toFixed(3)}`}`,
    ),
    'Write the next one.',
  ].join('\n\n');
}
