/**
 * `npm start [-- OPTIONS]`: builds, sets up Vulkan and runs the host with the embedded model or the one that OPTIONS
 * name.
 */
import { buildIfNeeded } from './build.mjs';
import { runHost } from './run-host.mjs';
import { setUpVulkan } from './setup-vulkan.mjs';

if (!buildIfNeeded() || !setUpVulkan()) process.exit(1);
process.exit(await runHost('dist/host.js', process.argv.slice(2)));
