document.querySelector('#page')?.append('');
export {};
