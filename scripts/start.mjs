/** `npm start [-- OPTIONS]`: builds, sets up Vulkan and runs the host with the embedded model or the one asked for. */
import { fileURLToPath } from 'node:url';
import { runInForeground } from '../src/platform/foreground.mjs';
import { buildIfNeeded } from './build.mjs';
import { setUpVulkan } from './setup-vulkan.mjs';

if (!buildIfNeeded() || !setUpVulkan()) process.exit(1);
const host = fileURLToPath(new URL('../dist/host.js', import.meta.url));
process.exit(
  await runInForeground(process.execPath, [host, '--gpu', ...process.argv.slice(2)], { ownSession: true }),
);
