import { existsSync } from 'node:fs';
import process from 'node:process';
import { main } from '../../src/cli/main.ts';
import { entryPath, repository } from './host.ts';
import { ScriptedEngine } from './scripted-engine.ts';
import { ScriptedLab } from './scripted-lab.ts';

/** The whole program but the engine: what `src/host.ts` does, with an engine that follows a script. */
interface HostScript {
  loadMs?: number;
  /** Loads until there is this file. */
  loadUntil?: string;
  loadError?: string;
  /** Pieces of an answer and the time before each. */
  pieces?: number;
  delayMs?: number;
  /** The answer itself, instead. */
  says?: string[];
  contextLength?: number;
  timings?: { queued_ms: number; prefill_ms: number; decode_ms: number };
  hang?: boolean;
  /** `close` never resolves, as with a hung device. */
  hangOnClose?: boolean;
  /** Has a scripted lab. */
  lab?: boolean;
  /** Behave as on a terminal. */
  tty?: boolean;
}

const script = JSON.parse(process.env['LATHE_TEST_SCRIPT'] ?? '{}') as HostScript;
const terminal = {
  isTTY: script.tty ?? false,
  columns: 60,
  write: (text: string) => process.stderr.write(text),
};

await main({
  args: process.argv.slice(2),
  env: process.env,
  home: '/nowhere',
  packageRoot: repository,
  stdout: process.stdout,
  stderr: terminal,
  signals: process,
  exit: (code) => process.exit(code),
  elapsedMs: () => performance.now(),
  entry: entryPath,
  async loadEngine({ onProgress, onNotice }) {
    onNotice?.('a notice of the engine');
    for (let done = 0; done <= 4; done++) {
      onProgress?.({ stage: 'weights', done, total: 4 });
      await new Promise((resolve) => setTimeout(resolve, (script.loadMs ?? 0) / 5));
    }
    while (script.loadUntil !== undefined && !existsSync(script.loadUntil))
      await new Promise((resolve) => setTimeout(resolve, 10));
    if (script.loadError !== undefined) throw new Error(script.loadError);
    const engine = new ScriptedEngine({
      answer: () => script.says ?? Array<string>(script.pieces ?? 4).fill('x'),
      delayMs: script.delayMs ?? 0,
      hang: script.hang ?? false,
      ...(script.timings === undefined ? {} : { timings: script.timings }),
      ...(script.contextLength === undefined ? {} : { contextLength: script.contextLength }),
    });
    if (script.hangOnClose) engine.close = () => new Promise(() => {});
    return engine;
  },
  async openLab() {
    return script.lab ? { lab: new ScriptedLab(), close: () => Promise.resolve() } : undefined;
  },
  async openGrammars() {
    return undefined;
  },
  async pull({ repo, destination, onProgress, signal, token, endpoint }) {
    for (let done = 0; done <= 100; done++) {
      signal.throwIfAborted();
      onProgress({
        file: 'f.gguf',
        done,
        total: 100,
        part: { digest: 'sha256:00', doneBytes: done, totalBytes: 100 },
      });
      await new Promise((resolve) => setTimeout(resolve, (script.loadMs ?? 0) / 100));
    }
    return { path: `${destination}/${repo}.gguf ${token ?? '-'} ${endpoint ?? '-'}`, alreadyPresent: false };
  },
});
