import { portError } from '../../cli/port-error.ts';
import { printable } from '../../terminal/printable.ts';
import { interruptedExitCode, onStopSignals, type SignalSource } from '../../terminal/stop-signals.ts';
import { counted } from '../../words/count.ts';
import { remarksOn } from '../config/remarks.ts';
import { databaseOf, neededFile, note, type Session } from './session.ts';

const [defaultHost, defaultPort, defaultGraceSecs] = ['127.0.0.1', 8090, 30];
/** Time limit of closing after all requests are aborted, in ms. */
const closeMs = 15_000;

/** `serve`: starts the gateway; resolves when it listens. */
export async function serve(session: Session): Promise<void> {
  const { world, command } = session;
  const {
    host = defaultHost,
    port = defaultPort,
    'grace-secs': graceSecs = defaultGraceSecs,
  } = command.flags;
  const file = await neededFile(session);
  const config = await file.config();
  const database = await databaseOf(session, file);
  for (const remark of remarksOn(config)) note(session, printable(remark));
  const onNotice = (text: string) => note(session, printable(text));
  const { env } = world;
  const version = await world.version();
  const running = await world
    .serve({ config, database, host, port, env, version, onNotice })
    .catch((error: unknown) => {
      throw isListening(error) ? portError(error, host, port, '--port') : error;
    });
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${running.port}`;
  world.stdout.write(
    command.json
      ? `${JSON.stringify({ url, models: config.models.length })}\n`
      : `lathe gateway ready on ${url}: ${counted(config.models.length, 'model')} of ${counted(config.providers.length, 'provider')}\n`,
  );
  stopOnSignals(world.signals, (graceMs) => running.stop(graceMs), {
    graceMs: graceSecs * 1000,
    exit: world.exit,
    say: onNotice,
  });
}

const isListening = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && error.syscall === 'listen';

/**
 * Handles stop signals. The first SIGINT, SIGTERM or SIGHUP lets running requests finish; a second SIGINT or SIGTERM aborts
 * them; a third exits at once.
 */
export function stopOnSignals(
  source: SignalSource,
  stop: (graceMs: number) => Promise<void>,
  { graceMs, exit, say }: { graceMs: number; exit: (code: number) => void; say: (text: string) => void },
): void {
  onStopSignals(source, (request) => {
    if (request > 2) {
      exit(interruptedExitCode);
      return;
    }
    const patience = request === 1 ? graceMs : 0;
    say(`stopping; running requests have ${patience / 1000} s to finish`);
    setTimeout(() => exit(1), patience + closeMs).unref();
    void stop(patience).then(
      () => exit(0),
      () => exit(1),
    );
  });
}
