/** `npm run dev [-- OPTIONS]`: the host from its sources, as they are. */
import { runHost } from './run-host.mjs';

process.exit(await runHost('src/host.ts', process.argv.slice(2)));
