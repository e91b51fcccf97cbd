import { SHELLS } from '../../completion/shells.ts';
import { defineCommand } from '../define-command.ts';

export const completionCommand = defineCommand({
  command: 'completion <shell>',
  describe: 'Print a script that lets your shell complete commands, options, application IDs and tasks',
  builder: (yargs) =>
    yargs
      .positional('shell', { choices: SHELLS, demandOption: true, describe: 'Your shell' })
      .example('source <(tony-ts completion bash)', 'in ~/.bashrc')
      .example('source <(tony-ts completion zsh)', 'in ~/.zshrc, after compinit')
      .example('tony-ts completion fish > ~/.config/fish/completions/tony-ts.fish', 'once'),
  handler: async ({ shell }) => {
    const { completionScript } = await import('../../completion/scripts.ts');
    process.stdout.write(await completionScript(shell));
  },
});
