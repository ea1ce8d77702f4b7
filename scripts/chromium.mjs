import { existsSync } from 'node:fs';

const places = [
  process.env.LATHE_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** Browser for the page tests: `LATHE_CHROMIUM`, or an installed Chromium. Undefined if there is none. */
export const chromiumPath = () => places.find((path) => path && existsSync(path));
