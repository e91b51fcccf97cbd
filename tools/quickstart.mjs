#!/usr/bin/env node
/**
 * `npm run quickstart`: trains a model on this machine with two workers, starting from a fresh checkout. Reports missing programs that you
 * must install first. The script prints each command before it runs it, so you can also run every step by hand.
 */
import { spawn } from 'node:child_process';
import { ensureInstalled, ROOT, runInherited } from './install.mjs';

const JOB = 'examples/mnist/job.yaml';
const COMMAND = 'dist/tony-ts.js';

const missing = await missingPrerequisites();
if (missing.length > 0) {
  console.error(
    `The quickstart cannot start, because this machine lacks:\n${missing.map((each) => `  - ${each}\n`).join('')}Install what is missing, and try again.`,
  );
  process.exit(2);
}
try {
  announce('npm ci (skipped if the packages are installed)');
  const isBuilt = await ensureInstalled();
  if (!isBuilt) {
    announce('npm run build');
    const { buildAll } = await import('./build.mjs');
    await buildAll({ types: false });
  }
  announce('npx tony-ts runtime build');
  await runInherited(process.execPath, [COMMAND, 'runtime', 'build']);
} catch (error) {
  console.error(`quickstart: ${/** @type {Error} */ (error).message}`);
  process.exit(1);
}
announce(`npx tony-ts submit --local --conf ${JOB}`);
process.exitCode = await atTerminal(process.execPath, [COMMAND, 'submit', '--local', '--conf', JOB, ...process.argv.slice(2)]);

/** @param {string} command */
function announce(command) {
  console.log(`\n> ${command}`);
}

/** @returns {Promise<string[]>} a sentence for each missing prerequisite */
async function missingPrerequisites() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const compiler = process.env.CXX || 'g++';
  const [npm, pip, cxx] = await Promise.all([
    runs('npm', ['--version']),
    runs('python3', ['-m', 'pip', '--version']),
    runs(compiler, ['--version']),
  ]);
  const lacking = [];
  if (process.platform !== 'linux') {
    lacking.push(`Linux: the runtime uses TensorFlow's library for Linux, and this machine runs ${process.platform}`);
  }
  if (major < 20 || (major === 20 && minor < 19)) {
    lacking.push(`Node 20.19 or newer: the installed version is ${process.versions.node}`);
  }
  if (!npm) {
    lacking.push('npm, which comes with Node');
  }
  if (!pip) {
    lacking.push('python3 with pip, which downloads the TensorFlow library (Debian and RedHat: the package python3-pip)');
  }
  if (!cxx) {
    lacking.push(`the C++ compiler ${compiler}, for TensorFlow.js's addon (Debian: the package g++; RedHat: gcc-c++)`);
  }
  return lacking;
}

/**
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<boolean>}
 */
function runs(program, args) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'ignore', timeout: 60_000 });
    child.once('error', () => resolve(false));
    child.once('close', (code) => resolve(code === 0));
  });
}

/**
 * Runs an interactive program and returns its exit code. The program handles Ctrl-C: it asks whether to stop the job.
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<number>}
 */
function atTerminal(program, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: ROOT, stdio: 'inherit' });
    process.on('SIGINT', () => {});
    process.on('SIGTERM', () => child.kill('SIGTERM'));
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}
