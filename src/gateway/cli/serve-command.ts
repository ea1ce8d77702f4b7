import { portError } from '../../cli/port-error.ts';
import { printable } from '../../terminal/printable.ts';
import {
  interruptedExitCode,
  onReloadSignals,
  onStopSignals,
  type SignalSource,
} from '../../terminal/stop-signals.ts';
import { errorMessage } from '../../util/error-message.ts';
import { pluralize } from '../../words/count.ts';
import { UsageError } from '../../config/usage.ts';
import { readAdminTokens } from '../operator/admin-tokens.ts';
import type { NoticeHandler } from '../../tracing/index.ts';
import { RequestLog } from '../serve/request-log.ts';
import { findRemarks } from '../config/remarks.ts';
import { resolveDatabaseUrl, readConfig, writeNote, type CommandContext } from './command-context.ts';

const [defaultHost, defaultPort, defaultGraceSecs] = ['127.0.0.1', 8090, 30];
/** Time limit of closing after all requests are aborted, in ms. */
const closeTimeoutMs = 15_000;

/** `serve`: starts the gateway; resolves when it listens. */
export async function serve(context: CommandContext): Promise<void> {
  const { environment: world, command } = context;
  const {
    host = defaultHost,
    port = defaultPort,
    'grace-secs': graceSecs = defaultGraceSecs,
    'admin-host': adminHost = defaultHost,
    'admin-port': adminPort,
    'admin-token-file': adminTokenFile,
    'log-format': logFormat,
    'log-sample': logSample = 1,
    'otlp-endpoint': otlpEndpoint,
  } = command.flags;
  if (adminPort === undefined && command.flags['admin-host'] !== undefined)
    throw new UsageError(['--admin-host needs --admin-port']);
  if (adminPort === undefined && adminTokenFile !== undefined)
    throw new UsageError(['--admin-token-file needs --admin-port']);
  const tokens = adminPort === undefined ? undefined : await readAdminTokens(adminTokenFile, world.env);
  if (logFormat === undefined && command.flags['log-sample'] !== undefined)
    throw new UsageError(['--log-sample needs --log-format']);
  const file = await readConfig(context);
  const config = await file.config();
  const database = await resolveDatabaseUrl(context, file, true);
  const log =
    logFormat &&
    new RequestLog({
      format: logFormat,
      sample: logSample,
      write: (line) => void world.stderr.write(line),
      now: world.now,
    });
  const reread = async () => {
    const next = await readConfig(context);
    const nextDatabase = await resolveDatabaseUrl(context, next, true);
    if (nextDatabase !== database) throw new UsageError(['the database changes only with a restart']);
    return await next.config();
  };
  const onNotice: NoticeHandler = (text, members) =>
    log ? log.notice(text, members) : writeNote(context, printable(text));
  for (const remark of findRemarks(config)) onNotice(remark);
  const { env } = world;
  const version = await world.version();
  const running = await world
    .serve({
      config,
      readConfig: reread,
      database,
      host,
      port,
      env,
      version,
      admin: adminPort === undefined ? undefined : { host: adminHost, port: adminPort, tokens },
      log,
      otlpEndpoint,
      onNotice,
    })
    .catch((error: unknown) => {
      if (!isListenError(error)) throw error;
      throw adminPort !== undefined && error.port === adminPort && adminPort !== port
        ? portError(error, adminHost, adminPort, '--admin-port')
        : portError(error, host, port, '--port');
    });
  // Before the ready line, because whoever reads it may stop the gateway at once.
  stopOnSignals(world.signals, (graceMs) => running.stop(graceMs), {
    graceMs: graceSecs * 1000,
    exit: world.exit,
    report: onNotice,
    ignoresHangup: !world.hasTerminal,
  });
  onReloadSignals(
    world.signals,
    () => void running.reload().catch((error: unknown) => onNotice(errorMessage(error))),
    world.hasTerminal,
  );
  const url = urlOf(host, running.port);
  const adminUrl = running.adminPort === undefined ? undefined : urlOf(adminHost, running.adminPort);
  world.stdout.write(
    command.json
      ? `${JSON.stringify({ url, ...(adminUrl ? { admin_url: adminUrl } : {}), models: config.models.length })}\n`
      : `lathe gateway ready on ${url}: ${pluralize(config.models.length, 'model')} of ${pluralize(config.providers.length, 'provider')}${adminUrl ? `; metrics on ${adminUrl}/metrics` : ''}\n`,
  );
}

const isListenError = (error: unknown): error is Error & { readonly port?: number } =>
  error instanceof Error && 'syscall' in error && error.syscall === 'listen';

const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

/**
 * Handles stop signals. The first SIGINT, SIGTERM or, with a terminal, SIGHUP lets running requests finish; a second SIGINT or SIGTERM aborts
 * them; a third exits at once.
 */
export function stopOnSignals(
  source: SignalSource,
  stop: (graceMs: number) => Promise<void>,
  {
    graceMs,
    exit,
    report,
    ignoresHangup,
  }: {
    graceMs: number;
    exit: (code: number) => void;
    report: (text: string) => void;
    ignoresHangup: boolean;
  },
): void {
  const onStop = (request: number) => {
    if (request > 2) {
      exit(interruptedExitCode);
      return;
    }
    const timeoutMs = request === 1 ? graceMs : 0;
    report(`stopping; running requests have ${timeoutMs / 1000} s to finish`);
    setTimeout(() => exit(1), timeoutMs + closeTimeoutMs).unref();
    void stop(timeoutMs).then(
      () => exit(0),
      () => exit(1),
    );
  };
  onStopSignals(source, onStop, { ignoresHangup });
}
