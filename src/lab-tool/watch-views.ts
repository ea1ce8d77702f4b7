import type { BenchResult } from '../lab/types.ts';
import { benchSummary, measuredKernels } from './bench-text.ts';
import { formatComponents } from './commands/bindings.ts';
import { outcomeDocument } from './commands/check.ts';
import { compactLines, outcomeLines } from './gate-text.ts';
import { nextStepLines } from './next-step.ts';
import type { Screen } from './screen.ts';
import type { OutputStyle, Style } from '../terminal/style.ts';
import { printable } from '../terminal/printable.ts';
import { wrapText } from '../terminal/text.ts';
import type { WatchEvent, WatchView } from './watch-events.ts';

/** Prints each event as one line of JSON. */
export const jsonView =
  (write: (line: string) => void): WatchView =>
  (event) =>
    write(
      JSON.stringify(
        event.event === 'gate' ? { ...event, outcomes: event.outcomes.map(outcomeDocument) } : event,
      ),
    );

/** Prints events as lines, for pipes and files. */
export function plainView(write: (line: string) => void, look: OutputStyle): WatchView {
  return (event) => {
    for (const line of eventLines(event, look)) write(line);
  };
}

function eventLines(event: WatchEvent, look: OutputStyle): readonly string[] {
  switch (event.event) {
    case 'start':
      return [`watching ${event.files.join(', ')} with the host at ${event.url}`];
    case 'gate':
      return ['', ...event.outcomes.flatMap((outcome) => outcomeLines(outcome, look))];
    case 'bench':
      return benchEventLines(event.result, look);
    case 'gating':
    case 'benching':
      return [];
    case 'stop':
      return [...event.failures, ...(event.unbound ? ['the previous bindings are restored'] : [])].map(
        printable,
      );
    default:
      return statusLines(event, look);
  }
}

const benchEventLines = (result: BenchResult, look: OutputStyle): string[] => [
  ...benchSummary(result, look),
  ...nextStepLines(
    result,
    measuredKernels(result).map((name) => `--kernel ${name}`),
    look,
  ),
];

type Status = Exclude<WatchEvent, { event: 'start' | 'gate' | 'bench' | 'gating' | 'benching' | 'stop' }>;

/** Colored text of an event, wrapped to the terminal. */
function statusLines(event: Status, { paint, width }: OutputStyle): string[] {
  const [style, text] = statusOf(event);
  return wrapText(printable(text), width - 2, '    ').map((line) => paint(style, line));
}

function statusOf(event: Status): [style: Style, text: string] {
  switch (event.event) {
    case 'file_unreadable':
      return ['warn', `! ${event.message.startsWith(event.file) ? '' : `${event.file}: `}${event.message}`];
    case 'bound':
      return ['good', `✓ ${event.kernel} runs ${formatComponents(event.components)}`];
    case 'bind_refused':
      return ['bad', `✗ ${event.kernel} is not bound: ${event.message}`];
    case 'bench_failed':
      return ['bad', `✗ bench failed: ${event.message}`];
    case 'host_gone':
      return ['warn', `! ${event.message}; retrying`];
    case 'host_back':
      return ['good', '✓ the host is available again'];
    case 'quarantined':
      return [
        'bad',
        `✗ ${event.kernel} is in quarantine: the device was lost, and the host runs the built-in kernels`,
      ];
  }
}

interface FileState {
  busy: boolean;
  lines: readonly string[];
  /** Binding status lines by kernel. */
  readonly bound: Map<string, readonly string[]>;
}

/** Full-screen view of the current state. */
export function screenView(screen: Screen, look: OutputStyle, now: () => Date): WatchView {
  const files = new Map<string, FileState>();
  let [url, benching] = ['', false];
  let host: readonly string[] = [];
  let bench: readonly string[] = [];
  const fileState = (file: string): FileState => {
    const state = files.get(file) ?? { busy: false, lines: [], bound: new Map() };
    files.set(file, state);
    return state;
  };
  const { paint } = look;
  const draw = () => {
    const clock = now().toTimeString().slice(0, 8);
    screen.show([
      `${paint('strong', 'lathe lab watch')}  ${url}  ${clock}  ${paint('dim', 'Ctrl-C ends')}`,
      ...host,
      ...bench,
      ...(benching ? [paint('note', 'measuring …')] : []),
      ...[...files].flatMap(([file, state]) => [
        '',
        ...(state.lines.length === 0
          ? [`${paint('dim', '…')} ${file}`]
          : state.lines.map((line, index) =>
              index === 0 && state.busy ? `${line}${paint('note', '  checking …')}` : line,
            )),
        ...[...state.bound.values()].flat().map((line) => `  ${line}`),
      ]),
    ]);
  };
  return (event) => {
    switch (event.event) {
      case 'start':
        url = event.url;
        for (const file of event.files) fileState(file);
        break;
      case 'gating':
        fileState(event.file).busy = true;
        benching = false;
        break;
      case 'gate': {
        const state = fileState(event.file);
        state.busy = false;
        state.lines = event.outcomes.flatMap((outcome) => compactLines(outcome, look));
        for (const kernel of state.bound.keys())
          state.bound.set(kernel, [paint('dim', `${kernel}: the previous version stays bound`)]);
        break;
      }
      case 'file_unreadable': {
        const state = fileState(event.file);
        state.busy = false;
        state.lines = statusLines(event, look);
        break;
      }
      case 'bound':
      case 'bind_refused':
      case 'quarantined':
        fileState(event.file).bound.set(event.kernel, statusLines(event, look));
        break;
      case 'benching':
        benching = true;
        break;
      case 'bench':
        [bench, benching] = [benchEventLines(event.result, look), false];
        break;
      case 'bench_failed':
        [bench, benching] = [statusLines(event, look), false];
        break;
      case 'host_gone':
        [host, benching] = [statusLines(event, look), false];
        break;
      case 'host_back':
        host = [];
        break;
      case 'stop':
        return;
    }
    draw();
  };
}
