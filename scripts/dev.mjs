/** `npm run dev [-- OPTIONS]`: runs the host from its sources. */
import { runHost } from './run-host.mjs';

process.exit(await runHost('src/host.ts', process.argv.slice(2)));
